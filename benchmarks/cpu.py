"""Products of matrices on the CPU in f32 and bf16, alone and with what follows, against NumPy and PyTorch.

    python -m benchmarks.cpu [--threads N] [--peers torch]

Peers that are not installed are left out; NumPy, whose idle workers would disturb others, runs on one thread only.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.results import Result
from benchmarks.timing import Call, arguments, compare, fair_process, report

SQUARES = (256, 512, 1024, 2048)
LAYERS = ((8, 768, 3072), (32, 768, 3072), (128, 768, 768), (512, 768, 3072), (512, 3072, 768))
"""Rows, inputs and outputs of linear layers; their weights have a row for each output."""


@dataclass(frozen=True)
class Product:
    """One case.

    Attributes:
        layer: whether it is a linear layer, with bias and gelu, or a plain product.
    """

    rows: int
    depth: int
    columns: int
    dtype: str
    layer: bool

    @property
    def name(self) -> str:
        short = {"float32": "f32", "bfloat16": "bf16"}[self.dtype]
        what = "gelu(x @ w.T + b)" if self.layer else "a @ b"
        return f"{what}, {self.rows} x {self.depth} x {self.columns}, {short}"

    @property
    def flops(self) -> int:
        """Multiplications and additions of the product."""
        return 2 * self.rows * self.depth * self.columns

    def arrays(self) -> list[Any]:
        """Operands, and the bias of a layer, in f32."""
        import numpy as np

        rng = np.random.default_rng(0)
        shapes: list[tuple[int, ...]] = [(self.rows, self.depth), (self.depth, self.columns)]
        if self.layer:
            shapes = [shapes[0], shapes[1][::-1], (self.columns,)]
        return [rng.standard_normal(shape, np.float32) for shape in shapes]


def products() -> Iterator[Product]:
    """All cases."""
    for dtype in ("float32", "bfloat16"):
        for size in SQUARES:
            yield Product(size, size, size, dtype, False)
        for rows, depth, columns in LAYERS:
            yield Product(rows, depth, columns, dtype, True)


def firebox_calls(product: Product) -> dict[str, Call]:
    import firebox as fb

    tensors = [fb.tensor(a).astype(product.dtype) for a in product.arrays()]

    def plain(a: Any, b: Any) -> Any:
        return a @ b

    def layer(x: Any, w: Any, b: Any) -> Any:
        return fb.gelu(x @ w.T + b, approximate="tanh")

    jitted = fb.jit(layer if product.layer else plain)
    return {"firebox": lambda: jitted(*tensors)}


def numpy_calls(product: Product) -> dict[str, Call]:
    import numpy as np

    if product.layer or product.dtype != "float32":
        return {}
    a, b = product.arrays()
    return {"numpy": lambda: np.matmul(a, b)}


def torch_calls(product: Product, threads: int) -> dict[str, Call]:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    functional = torch.nn.functional
    tensors = [torch.from_numpy(a).to(getattr(torch, product.dtype)) for a in product.arrays()]
    if product.layer:
        return {"torch": lambda: functional.gelu(functional.linear(*tensors), approximate="tanh")}
    return {"torch": lambda: torch.mm(*tensors)}


def main() -> None:
    options = arguments(__doc__)
    fair_process(options.threads)
    results: list[Result] = []
    for product in products():
        calls = firebox_calls(product)
        if options.threads == 1:
            calls |= numpy_calls(product)
        if "torch" in options.peers and importlib.util.find_spec("torch"):
            calls |= torch_calls(product, options.threads)
        found = compare(product.name, calls, options)
        rate = round(product.flops / found.seconds["firebox"] / 1e9)
        results.append(replace(found, extra={"GFLOP/s": rate}))
    report("cpu", results, options)


if __name__ == "__main__":
    main()
