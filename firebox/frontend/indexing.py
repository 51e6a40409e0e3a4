"""`x[...]` and `x.at[...]`."""
from typing import Any
class At:
    def __init__(self, x): ...
def get(x, key): raise NotImplementedError
