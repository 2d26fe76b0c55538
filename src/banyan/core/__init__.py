"""The words of Banyan: records, ids, messages, state tables, ports. Pure; imports no other room."""
