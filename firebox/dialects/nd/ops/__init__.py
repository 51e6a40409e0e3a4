"""The primitive ops of the nd dialect, one module per family; importing this package registers them all."""

from firebox.dialects.nd.ops import (
    compare,
    composite,
    contract,
    convert,
    create,
    elementwise_binary,
    elementwise_unary,
    indexing,
    movement,
    pieces,
    random,
    reduce,
    scan,
    sort,
    stop,
    windows,
)

__all__ = [
    "compare",
    "composite",
    "contract",
    "convert",
    "create",
    "elementwise_binary",
    "elementwise_unary",
    "indexing",
    "movement",
    "pieces",
    "random",
    "reduce",
    "scan",
    "sort",
    "stop",
    "windows",
]
