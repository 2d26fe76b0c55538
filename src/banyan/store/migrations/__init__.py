"""The schema's history, by alembic; shipped in the wheel and run when a store is opened (upgrade.py).

A revision is never edited once released; the next one follows it. Start one with docs/checklists.
"""
