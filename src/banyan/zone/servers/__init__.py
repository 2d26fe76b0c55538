"""Servers of one zone. `surface` says what can be asked; the leaf's half is `leaf` and what it is made of."""
