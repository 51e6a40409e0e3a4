"""What a call costs beside the work: a compiled call, a recorded op, and the same in PyTorch and JAX.

    python -m benchmarks.overhead

The arrays have four elements, so that the work itself takes some nanoseconds. How long our native code takes is
measured without Python: a loop in LLVM IR calls the program's entry.
"""

import argparse
import ctypes
import importlib.util
from collections.abc import Callable
from typing import Any

from benchmarks.results import OURS, Result
from benchmarks.timing import Call, arguments, compare, fair_process, report

CALL_LIMIT = 5e-6
OP_LIMIT = 10e-6
VALUES = [1.0, 2.0, 3.0, 4.0]
CHAIN = 100
LOOP = 10_000

# Calls an entry point `count` times with the same blocks.
_REPEAT = """
define void @repeat(ptr %entry, ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status, i64 %count) {
start:
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
  call void %entry(ptr %env, ptr %args, ptr %dims, ptr %outs, ptr %status)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""


def four(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a * b + c * d


def chain(x: Any, y: Any) -> Any:
    for _ in range(CHAIN):
        x = x + y
    return x


def firebox_calls() -> dict[str, Call]:
    """``four`` jitted; ``chain`` recorded and run; ``record``: recorded only."""
    import firebox as fb

    a, b, c, d = (fb.tensor(VALUES) for _ in range(4))
    jitted = fb.jit(four)
    return {
        "four": lambda: jitted(a, b, c, d),
        "chain": lambda: chain(a, b).numpy(),
        "record": lambda: chain(a, b),
        "native": native_code([a, b, c, d]),
    }


def native_code(tensors: list[Any]) -> Call:
    """A callable that runs the native code of `four` `LOOP` times, without Python in between."""
    import firebox as fb
    from firebox.lowering.pipeline import lower
    from firebox.runtime.code_cache import compile_image
    from firebox.runtime.image import load
    from firebox.runtime.memory import POOL
    from firebox.runtime.pool import environment
    from firebox.runtime.target import Target

    lowered = lower(fb.jit(four).lower(*tensors).module(), Target.host())
    loaded = load(compile_image([lowered.text, _REPEAT], Target.host()))
    repeat = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, ctypes.c_int64)(loaded.address("repeat"))
    arrays = [POOL.allocate(4 * len(VALUES)) for _ in range(5)] + [POOL.allocate(4096)]  # inputs, output, workspace
    slots = (ctypes.c_int64 * len(arrays))(*(array.ptr for array in arrays))
    unused = (ctypes.c_int64 * 4)()
    entry, env, args = loaded.address(lowered.program.entry), environment().address, ctypes.addressof(slots)

    def call(holds: Any = (loaded, arrays, slots)) -> None:
        repeat(entry, env, args, unused, args + 8 * len(tensors), unused, LOOP)

    return call


def torch_calls() -> dict[str, dict[str, Call]]:
    import torch

    tensors = [torch.tensor(VALUES) for _ in range(4)]
    compiled = torch.compile(four)

    def without_grad(function: Callable[..., Any], *args: Any) -> Call:
        def call() -> None:
            with torch.no_grad():
                function(*args)

        return call

    return {
        "torch": {"four": without_grad(four, *tensors), "chain": without_grad(chain, *tensors[:2])},
        "torch.compile": {"four": without_grad(compiled, *tensors)},
    }


def jax_calls() -> dict[str, dict[str, Call]]:
    import jax

    tensors = [jax.numpy.asarray(VALUES) for _ in range(4)]
    jitted = jax.jit(four)
    return {
        "jax": {
            "four": lambda: jitted(*tensors).block_until_ready(),
            "chain": lambda: chain(*tensors[:2]).block_until_ready(),
        }
    }


def contenders(peers: list[str]) -> dict[str, dict[str, Call]]:
    found = {OURS: firebox_calls()}
    if "torch" in peers and importlib.util.find_spec("torch"):
        found |= torch_calls()
    if "jax" in peers and importlib.util.find_spec("jax"):
        found |= jax_calls()
    return found


def divided(result: Result, count: int, limit: float | None = None) -> Result:
    """The result for one of ``count`` equal parts of what was timed."""
    seconds, least = ({k: v / count for k, v in part.items()} for part in (result.seconds, result.least))
    return Result(result.case, result.threads, seconds, least, result.calm, limit)


def measure(options: argparse.Namespace) -> list[Result]:
    calls = contenders(options.peers)

    def timed(case: str, key: str) -> Result:
        return compare(case, {name: found[key] for name, found in calls.items() if key in found}, options)

    whole = timed("a * b + c * d as one call", "four")
    native = divided(timed("native code of it", "native"), LOOP)
    over = whole.seconds[OURS] - native.seconds[OURS]
    return [
        whole,
        native,
        Result("call without native code", options.threads, {OURS: over}, limit=CALL_LIMIT),
        divided(timed("recording an op", "record"), CHAIN, OP_LIMIT),
        divided(timed(f"an op of {CHAIN}, recorded and run", "chain"), CHAIN),
    ]


def main() -> None:
    options = arguments(__doc__)
    fair_process(options.threads)
    report("overhead", measure(options), options)


if __name__ == "__main__":
    main()
