"""The zone: observe, decide, apply. It knows ports (core.ports, core.records), never an adapter."""
