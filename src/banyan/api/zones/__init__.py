"""The handlers of Banyan's own API, a file per noun. Each reads a query or body and calls the zone, nothing more."""
