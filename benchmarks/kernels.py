"""Element-wise chains and row kernels against PyTorch and JAX, on arrays of 64 MB and of the size of an L2 cache.

    python -m benchmarks.kernels [--threads N] [--peers torch,jax]

Peers that are not installed are left out.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

from benchmarks.results import Result
from benchmarks.timing import Call, arguments, compare, fair_process, report

SIZES = {"64 MB": (16384, 1024), "256 KB": (64, 1024)}


def chain(f: Any, x: Any, z: Any, b: Any) -> Any:
    """relu(x * 1.5 + z + b)"""
    return f.relu(x * 1.5 + z + b)


def gelu(f: Any, x: Any, z: Any, b: Any) -> Any:
    """gelu_tanh(x + b)"""
    return f.gelu_tanh(x + b)


def gate(f: Any, x: Any, z: Any, b: Any) -> Any:
    """tanh(1.5 x + 0.5) * sigmoid(x) + z"""
    return f.tanh(x * 1.5 + 0.5) * f.sigmoid(x) + z


def softmax(f: Any, x: Any, z: Any, b: Any) -> Any:
    """softmax over rows"""
    return f.softmax(x)


def layer_norm(f: Any, x: Any, z: Any, b: Any) -> Any:
    """layer norm over rows, with scale and shift"""
    return f.layer_norm(x, b, b)


CASES: tuple[Callable[..., Any], ...] = (chain, gelu, gate, softmax, layer_norm)


def firebox_calls(arrays: list[Any], function: Callable[..., Any]) -> dict[str, Call]:
    import firebox as fb

    class Ops:
        relu = staticmethod(fb.relu)
        tanh = staticmethod(fb.tanh)
        sigmoid = staticmethod(fb.sigmoid)
        softmax = staticmethod(lambda x: fb.softmax(x, -1))
        gelu_tanh = staticmethod(lambda x: fb.gelu(x, approximate="tanh"))
        layer_norm = staticmethod(lambda x, g, b: fb.layer_norm(x, (1024,), g, b))

    tensors = [fb.tensor(a) for a in arrays]
    jitted = fb.jit(lambda *args: function(Ops, *args))
    return {"firebox": lambda: jitted(*tensors)}


def torch_calls(arrays: list[Any], function: Callable[..., Any], threads: int) -> dict[str, Call]:
    import torch

    torch.set_num_threads(threads)
    functional = torch.nn.functional

    class Ops:
        relu = staticmethod(torch.relu)
        tanh = staticmethod(torch.tanh)
        sigmoid = staticmethod(torch.sigmoid)
        softmax = staticmethod(lambda x: torch.softmax(x, -1))
        gelu_tanh = staticmethod(lambda x: functional.gelu(x, approximate="tanh"))
        layer_norm = staticmethod(lambda x, g, b: functional.layer_norm(x, (1024,), g, b))

    tensors = [torch.from_numpy(a) for a in arrays]

    def eager(*args: Any) -> Any:
        return function(Ops, *args)

    torch.compiler.reset()
    compiled = torch.compile(eager)

    def call(f: Callable[..., Any]) -> Call:
        def run() -> Any:
            with torch.no_grad():
                return f(*tensors)

        return run

    return {"torch": call(eager), "torch.compile": call(compiled)}


def jax_calls(arrays: list[Any], function: Callable[..., Any]) -> dict[str, Call]:
    import jax

    jnp = jax.numpy

    def normalise(x: Any, g: Any, b: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * g + b

    class Ops:
        relu = staticmethod(jax.nn.relu)
        tanh = staticmethod(jnp.tanh)
        sigmoid = staticmethod(jax.nn.sigmoid)
        softmax = staticmethod(lambda x: jax.nn.softmax(x, -1))
        gelu_tanh = staticmethod(lambda x: jax.nn.gelu(x, approximate=True))
        layer_norm = staticmethod(normalise)

    tensors = [jnp.asarray(a) for a in arrays]
    jitted = jax.jit(lambda *args: function(Ops, *args))
    return {"jax": lambda: jitted(*tensors).block_until_ready()}


def main() -> None:
    options = arguments(__doc__)
    fair_process(options.threads)
    import numpy as np

    results: list[Result] = []
    peers = [peer for peer in options.peers if importlib.util.find_spec(peer)]
    rng = np.random.default_rng(0)
    for size, shape in SIZES.items():
        arrays = [rng.standard_normal(s).astype(np.float32) for s in (shape, shape, shape[1:])]
        for function in CASES:
            calls = firebox_calls(arrays, function)
            if "torch" in peers:
                calls |= torch_calls(arrays, function, options.threads)
            if "jax" in peers:
                calls |= jax_calls(arrays, function)
            name = (function.__doc__ or "").strip()
            results.append(compare(f"{name}, {size}", calls, options))
    report("kernels", results, options)


if __name__ == "__main__":
    main()
