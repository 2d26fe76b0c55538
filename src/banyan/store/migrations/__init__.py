"""The schema's history, by alembic; shipped in the wheel and run when a store is opened (upgrade.py).

A revision is never edited once it was released. A new one: change store/tables.py, write versions/NNNN_what.py that
follows the newest, and raise `upgrade.HEAD`; tests/contract/store/test_opening.py tells when the three disagree.
"""
