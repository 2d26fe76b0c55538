"""The store: a zone's memory. SQLite by default, PostgreSQL where several controllers share a zone (protocols §12).

It translates between the records of `core` and rows, and never decides. All SQL is synchronous and lives in
functions of one transaction; `store.SqlStore` runs them off the loop, `inline.InlineStore` on it, for simulation.
Start reading at `open.py`, then `store.py`, `transactor.py`, `unit.py`, `tables.py`.
"""
