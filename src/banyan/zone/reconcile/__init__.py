"""Activations and sides: what a zone does by itself, each in its own file."""
