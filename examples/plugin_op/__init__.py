"""Ops, a pattern, a pass and a kernel template that are defined outside of Firebox, one file each."""
