"""Expansions of mathematical functions (being written)."""
