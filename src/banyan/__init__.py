"""Banyan: one control plane for very many clouds.

The rooms, from the bottom up: `core` (words), `placement`, `health`, `trust` (decisions),
`store`, `link`, `drivers` (hands), `zone` (observe, decide, apply), `api` (surface), `serve`
(assembly), `simulate` (worlds on virtual time), `cli`. See docs/architecture.md.
"""

__version__ = "0.1.0"
