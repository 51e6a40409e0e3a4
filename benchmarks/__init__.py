"""Benchmarks against other libraries, measured side by side."""
