"""The store's contract: one suite on SQLite, on PostgreSQL, and on the simulated store."""
