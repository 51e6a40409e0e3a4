"""What a call costs beside the work: jitted calls, recorded ops, and the same in PyTorch and JAX.

    python -m benchmarks.overhead

The arrays have four elements, so that the work itself takes some nanoseconds. How long our native code takes is measured
without Python: a loop in LLVM IR calls the program's entry.
"""

import ctypes
import importlib.util
from collections.abc import Callable
from typing import Any

from benchmarks.results import Result
from benchmarks.timing import Call, arguments, compare, fair_process, report

CALL_LIMIT = 5e-6
OP_LIMIT = 10e-6
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


def native_call(jitted: Any, tensors: list[Any]) -> Call:
    """A callable that runs the native code of the jitted function `LOOP` times, without Python in between."""
    from firebox.runtime.code_cache import compile_image
    from firebox.runtime.dispatch import Executable
    from firebox.runtime.image import load
    from firebox.runtime.llvm import compile_to_object  # noqa: F401  (the compiler is loaded now, not while timing)
    from firebox.runtime.memory import POOL
    from firebox.runtime.pool import environment
    from firebox.runtime.target import Target

    jitted(*tensors)
    (prepared,) = jitted._prepared.values()
    executable = prepared.variant.compiled.__self__
    assert isinstance(executable, Executable)
    loaded = load(compile_image([_REPEAT], Target.host()))
    repeat = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, ctypes.c_int64)(loaded.address("repeat"))
    entry = ctypes.cast(executable._run.__self__._call, ctypes.c_void_p).value
    kept = [tensor._var.buffer for tensor in tensors] + [POOL.allocate(16), POOL.allocate(4096)]
    args = (ctypes.c_int64 * 4)(*(buffer.ptr for buffer in kept[:4]))
    outs = (ctypes.c_int64 * 2)(*(buffer.ptr for buffer in kept[4:]))
    dims, status = (ctypes.c_int64 * 4)(), (ctypes.c_int64 * 4)()
    env = environment().address

    def call(holds: Any = (loaded, kept)) -> None:
        repeat(entry, env, args, dims, outs, status, LOOP)

    return call


def firebox_results(options: Any) -> list[Result]:
    import firebox as fb

    tensors = [fb.tensor([1.0, 2.0, 3.0, 4.0]) for _ in range(4)]
    jitted = fb.jit(four)
    whole = compare("a jitted call with 4 tensors", {"firebox": lambda: jitted(*tensors)}, options)
    native = compare("its native code", {"firebox": native_call(jitted, tensors)}, options)
    code = native.seconds["firebox"] / LOOP
    over = whole.seconds["firebox"] - code
    return [
        whole,
        Result("of this, native code", options.threads, {"firebox": code}),
        Result("of this, overhead", options.threads, {"firebox": over}, limit=CALL_LIMIT),
        *_lazy(fb, tensors, options),
    ]


def _lazy(fb: Any, tensors: list[Any], options: Any) -> list[Result]:
    x, y = tensors[:2]

    def record() -> Any:
        value = x
        for _ in range(CHAIN):
            value = value + y
        return value

    def run() -> None:
        record().numpy()

    recorded = compare("recording a lazy op", {"firebox": record}, options)
    ran = compare("a lazy op, recorded, planned, looked up and run", {"firebox": run}, options)
    return [_each(recorded, OP_LIMIT), _each(ran, None)]


def _each(result: Result, limit: float | None) -> Result:
    """The result for one op of a chain."""
    seconds, least = ({k: v / CHAIN for k, v in part.items()} for part in (result.seconds, result.least))
    return Result(result.case, result.threads, seconds, least, result.calm, limit)


def torch_calls() -> dict[str, dict[str, Call]]:
    import torch

    tensors = [torch.tensor([1.0, 2.0, 3.0, 4.0]) for _ in range(4)]
    compiled = torch.compile(four)
    x, y = tensors[:2]

    def without_grad(function: Callable[..., Any], *args: Any) -> Call:
        def call() -> None:
            with torch.no_grad():
                function(*args)

        return call

    return {
        "an eager add": {"torch": lambda: x + y},
        "the call with 4 tensors": {
            "torch": without_grad(four, *tensors),
            "torch.compile": without_grad(compiled, *tensors),
        },
    }


def jax_calls() -> dict[str, dict[str, Call]]:
    import jax

    tensors = [jax.numpy.asarray([1.0, 2.0, 3.0, 4.0]) for _ in range(4)]
    jitted = jax.jit(four)
    x, y = tensors[:2]
    return {
        "an eager add": {"jax": lambda: (x + y).block_until_ready()},
        "the call with 4 tensors": {"jax": lambda: jitted(*tensors).block_until_ready()},
    }


def main() -> None:
    options = arguments(__doc__)
    fair_process(options.threads)
    results = firebox_results(options)
    peers: dict[str, dict[str, Call]] = {}
    for name, make in (("torch", torch_calls), ("jax", jax_calls)):
        if name in options.peers and importlib.util.find_spec(name):
            for case, calls in make().items():
                peers.setdefault(case, {}).update(calls)
    results += [compare(case, calls, options) for case, calls in peers.items()]
    report("overhead", results, options)


if __name__ == "__main__":
    main()
