"""Assembly: settings, concrete adapters, and the process that runs one zone."""
