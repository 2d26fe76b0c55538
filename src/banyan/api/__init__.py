"""The HTTP surface of a zone: one route table, and what is generated from it.

It authenticates callers and carries their words to `zone.surface.Surface`, which decides what they may do. It
never opens a store, never decides, and never logs a token. Start reading at `routes.py`; the prose for clients is
docs/contracts/api.md.
"""
