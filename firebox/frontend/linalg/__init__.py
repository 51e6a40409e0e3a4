"""Linear algebra, `fb.linalg`."""
