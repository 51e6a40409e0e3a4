"""What `startup` runs in fresh processes: each function does one thing and prints when it was done, as JSON.

Nothing is imported here that the thing itself does not need. Times are of the clock that all processes share.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
SHAPE = (64, 1024)


def _print(**marks: Any) -> None:
    print(json.dumps(marks))


def step() -> None:
    """Two training steps of the network of examples/digits.py on 64 images."""
    sys.path.insert(0, str(EXAMPLES))
    import numpy as np
    from digits import model

    import firebox as fb

    rng = np.random.default_rng(0)
    images, labels = rng.random((64, 1, 8, 8), np.float32), rng.integers(0, 10, 64)
    net = model()
    optimizer = fb.optim.AdamW(net, lr=1e-3)
    marks = []
    for _ in range(2):
        loss = fb.cross_entropy(net(fb.tensor(images)), fb.tensor(labels))
        loss.backward()
        optimizer.step()
        loss.item()
        marks.append(time.monotonic())
    _print(first=marks[0], second=marks[1])


def six(f: Any, x: Any, y: Any, z: Any) -> Any:
    """Six element-wise ops."""
    return f.tanh(x * y + z) * f.sigmoid(y) + x


def firebox_kernel() -> None:
    """`six` compiled: by a process that has compiled nothing yet, and by one that has."""
    import numpy as np

    import firebox as fb

    x = fb.tensor(np.ones(SHAPE, np.float32))
    start = time.monotonic()
    fb.jit(lambda a: a.abs() - a)(x).numpy()
    loaded = time.monotonic()
    fb.jit(lambda *args: six(fb, *args))(x, x, x).numpy()
    _print(loading=loaded - start, call=time.monotonic() - loaded)


def firebox_parts() -> None:
    """Where the compile time of `six` goes: Python and LLVM."""
    import numpy as np

    import firebox as fb
    from benchmarks.observe import compilations

    x = fb.tensor(np.ones(SHAPE, np.float32))
    fb.jit(lambda a: a.abs() - a)(x).numpy()
    with compilations() as found:
        fb.jit(lambda *args: six(fb, *args))(x, x, x).numpy()
    _print(python=sum(found[0].seconds.values()), llvm=found[0].llvm)


def torch_kernel() -> None:
    import torch

    x = torch.ones(SHAPE)
    start = time.monotonic()
    torch.compile(lambda a: a.abs() - a)(x)
    loaded = time.monotonic()
    torch.compile(lambda *args: six(torch, *args))(x, x, x)
    _print(loading=loaded - start, call=time.monotonic() - loaded)


def jax_kernel() -> None:
    import jax

    class Ops:
        tanh, sigmoid = jax.numpy.tanh, jax.nn.sigmoid

    x = jax.numpy.ones(SHAPE)
    start = time.monotonic()
    jax.jit(lambda a: abs(a) - a)(x).block_until_ready()
    loaded = time.monotonic()
    jax.jit(lambda *args: six(Ops, *args))(x, x, x).block_until_ready()
    _print(loading=loaded - start, call=time.monotonic() - loaded)


def artifact(path: str) -> None:
    """The network of examples/digits.py, untrained: its weights as ``path``/w.safetensors and images of a batch."""
    sys.path.insert(0, str(EXAMPLES))
    import numpy as np
    from digits import model

    import firebox as fb

    fb.record.save(model(), Path(path) / "w.safetensors")
    np.save(Path(path) / "x.npy", np.random.default_rng(0).random((64, 1, 8, 8), np.float32))


def modules() -> None:
    """Which compilers are loaded with the runtime."""
    import firebox.runtime  # noqa: F401

    _print(loaded=[name for name in ("xdsl", "llvmlite") if name in sys.modules])
