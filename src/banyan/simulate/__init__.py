"""Whole trees of real zones in one process, on virtual time: the same zone that `serve` runs, other adapters."""
