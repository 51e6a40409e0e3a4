"""The emitter: control flow, calling convention, golden text, determinism, refusals."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects import func, memref
from xdsl.ir import Block, Region

from firebox import dtypes
from firebox.dialects.kernel.builder import KernelBuilder, Val
from firebox.dialects.xdsl_compat import memref_type, scalar_type
from firebox.errors import CompilerError
from firebox.lowering.llvm.emit import emit_kernels
from firebox.runtime.elf import link_objects
from firebox.runtime.llvm import compile_to_assembly, compile_to_object
from firebox.runtime.target import Target
from tests.lowering.llvm.kernel_runner import Compiled

V3 = Target.parse("x86-64-v3")


def axpy(name: str = "axpy") -> func.FuncOp:
    """y += a x over rows, with the scalar a of each row."""
    b = KernelBuilder.kernel(name, [dtypes.f32] * 3, n_dims=1, dim_indices=[2], location=("/home/me/model.py", 12))
    a, x, y = b.buffers

    def row(i: Val, _: list[Val]) -> None:
        scale = b.load(a, i)
        start = b.mul(i, b.dims[0])

        def column(j: Val, _: list[Val]) -> None:
            at = b.add(start, j)
            b.location = ("/home/me/model.py", 13)
            b.store(y, at, b.fma(scale, b.load(x, at, 8), b.load(y, at, 8)))
            b.location = ("/home/me/model.py", 12)

        b.loop(0, b.dims[0], 8, [], column)

    b.loop(b.begin, b.end, 1, [], row)
    return b.finish()


GOLDEN = """\
target triple = "x86_64-unknown-linux-gnu"

define void @axpy(ptr %args, ptr %dims, i64 %begin, i64 %end, ptr %scratch, ptr %status) nounwind {
entry:
  %v1 = load ptr, ptr %args, align 8
  %v2 = getelementptr inbounds i64, ptr %args, i64 1
  %v3 = load ptr, ptr %v2, align 8
  %v4 = getelementptr inbounds i64, ptr %args, i64 2
  %v5 = load ptr, ptr %v4, align 8
  %v6 = getelementptr inbounds i64, ptr %dims, i64 2
  %v7 = load i64, ptr %v6, align 8
  %v8 = icmp slt i64 %begin, %end  ; model.py:12
  br i1 %v8, label %loop1, label %done2
loop1:
  %v9 = phi i64 [ %begin, %entry ], [ %v25, %done4 ]
  %v10 = getelementptr inbounds float, ptr %v1, i64 %v9
  %v11 = load float, ptr %v10, align 4
  %v12 = mul nsw i64 %v9, %v7
  %v13 = insertelement <8 x float> poison, float %v11, i64 0  ; model.py:13
  %v14 = shufflevector <8 x float> %v13, <8 x float> poison, <8 x i32> zeroinitializer
  %v15 = icmp slt i64 0, %v7  ; model.py:12
  br i1 %v15, label %loop3, label %done4
loop3:
  %v16 = phi i64 [ 0, %loop1 ], [ %v23, %loop3 ]
  %v17 = add nsw i64 %v12, %v16
  %v18 = getelementptr inbounds float, ptr %v3, i64 %v17  ; model.py:13
  %v19 = load <8 x float>, ptr %v18, align 4
  %v20 = getelementptr inbounds float, ptr %v5, i64 %v17
  %v21 = load <8 x float>, ptr %v20, align 4
  %v22 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v14, <8 x float> %v19, <8 x float> %v21)
  %v26 = getelementptr inbounds float, ptr %v5, i64 %v17
  store <8 x float> %v22, ptr %v26, align 4
  %v23 = add nsw i64 %v16, 8
  %v24 = icmp slt i64 %v23, %v7
  br i1 %v24, label %loop3, label %done4
done4:
  %v25 = add nsw i64 %v9, 1
  %v27 = icmp slt i64 %v25, %end
  br i1 %v27, label %loop1, label %done2
done2:
  ret void
}

declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
"""


def renumbered(text: str) -> str:
    """Value names counted by first appearance, so that the golden text says nothing of how they are chosen."""
    names: dict[str, str] = {}
    return re.sub(r"%v\d+", lambda m: names.setdefault(m[0], f"%n{len(names)}"), text)


def test_golden_text() -> None:
    assert renumbered(emit_kernels([axpy()], V3)) == renumbered(GOLDEN)


def test_equal_kernels_give_equal_text() -> None:
    assert emit_kernels([axpy(), axpy("b")], V3) == emit_kernels([axpy(), axpy("b")], V3)


def test_the_golden_kernel_computes() -> None:
    compiled = Compiled([axpy()])
    rng = np.random.default_rng(0)
    a, x, y = rng.random(4, np.float32), rng.random((4, 16), np.float32), rng.random((4, 16), np.float32)
    expected = y.copy()
    expected[1:3] = (a[1:3, None].astype(np.float64) * x[1:3] + y[1:3]).astype(np.float32)
    assert compiled("axpy", [a, x, y], dims=[0, 0, 16], begin=1, end=3) == [0, 0, 0, 0]
    np.testing.assert_array_equal(y, expected)


def test_an_empty_range_does_nothing() -> None:
    y = np.ones(8, np.float32)
    Compiled([axpy()])("axpy", [y, y, y], dims=[0, 0, 8], begin=3, end=3)
    assert (y == 1).all()


def run_single(body: Callable[[KernelBuilder], None], dims: list[int], size: int) -> list[int]:
    """A kernel that writes i64 results to its only buffer."""
    b = KernelBuilder.kernel("k", [dtypes.i64], n_dims=len(dims))
    body(b)
    out = np.zeros(size, np.int64)
    Compiled([b.finish()])("k", [out], dims=dims)
    return [int(v) for v in out]


def put(b: KernelBuilder, at: int, value: Val) -> None:
    b.store(b.buffers[0], at, b.cast(value, dtypes.i64))


def test_loops_carry_values() -> None:
    def fibonacci(b: KernelBuilder) -> None:
        one = b.const(1, dtypes.i64)
        for k, n in enumerate((*b.dims, b.index(10))):
            pair = b.loop(0, n, 1, [one, one], lambda _, c: [c[1], b.add(c[0], c[1])])
            put(b, k, pair[0])

    assert run_single(fibonacci, [0, 7], 3) == [1, 21, 89]


def test_nested_loops_with_carried_values() -> None:
    def triangle(b: KernelBuilder) -> None:
        zero = b.index(0)

        def row(i: Val, total: list[Val]) -> list[Val]:
            return b.loop(0, b.add(i, 1), 1, total, lambda j, t: [b.add(t[0], b.mul(i, j))])

        put(b, 0, b.loop(0, b.dims[0], 1, [zero], row)[0])

    assert run_single(triangle, [6], 1) == [sum(i * j for i in range(6) for j in range(i + 1))]


def test_steps_and_bounds() -> None:
    def count(b: KernelBuilder) -> None:
        zero = b.index(0)
        put(b, 0, b.loop(2, b.dims[0], 3, [zero], lambda i, c: [b.add(c[0], i)])[0])
        put(b, 1, b.loop(-4, 1, 2, [zero], lambda i, c: [b.add(c[0], i)])[0])

    assert run_single(count, [12], 2) == [sum(range(2, 12, 3)), -6]


def test_unrolled_loops() -> None:
    def powers(b: KernelBuilder) -> None:
        result = b.loop(0, 5, 1, [b.index(1)], lambda i, c: [b.mul(c[0], b.dims[0])], unroll=True)
        put(b, 0, result[0])

    assert run_single(powers, [3], 1) == [243]


def test_branches_give_values() -> None:
    def body(b: KernelBuilder) -> None:
        n, m = b.dims
        chosen = b.if_(b.lt(n, m), lambda: [b.mul(n, 10), m], lambda: [b.mul(m, 100), n])
        put(b, 0, chosen[0])
        put(b, 1, chosen[1])
        b.if_(b.gt(n, 100), lambda: put(b, 2, b.index(9)))

    assert run_single(body, [2, 3], 3) == [20, 3, 0]
    assert run_single(body, [200, 3], 3) == [300, 200, 9]


def test_conditional_loops() -> None:
    def collatz(b: KernelBuilder) -> None:
        def step(values: list[Val]) -> list[Val]:
            n, count = values
            even = b.eq(b.and_(n, 1), 0)
            return [b.select(even, b.shr(n, 1), b.add(b.mul(n, 3), 1)), b.add(count, 1)]

        start = [b.cast(b.dims[0], dtypes.i64), b.const(0, dtypes.i64)]
        n, count = b.while_(start, lambda v: b.ne(v[0], 1), step)
        put(b, 0, n)
        put(b, 1, count)

    assert run_single(collatz, [27], 2) == [1, 111]
    assert run_single(collatz, [1], 2) == [1, 0]


def test_the_first_fault_stays() -> None:
    b = KernelBuilder.kernel("k", [dtypes.i64])

    def check(i: Val, _: list[Val]) -> None:
        index = b.load(b.buffers[0], i)
        bad = b.or_(b.lt(index, 0), b.ge(index, 10))
        b.if_(bad, lambda: b.fail(1, 77, index, i))

    b.loop(b.begin, b.end, 1, [], check)
    compiled = Compiled([b.finish()])
    assert compiled("k", [np.array([3, 9, 0])], end=3) == [0, 0, 0, 0]
    assert compiled("k", [np.array([3, -4, 12])], end=3) == [1, 77, -4, 1]


def test_helper_functions_are_called() -> None:
    h = KernelBuilder.function("double_it", [(dtypes.f32,), dtypes.f32])
    memory, factor = h.args
    h.store(memory, 0, h.mul(h.load(memory, 0), factor))  # type: ignore[arg-type]
    helper = h.finish()
    b = KernelBuilder.kernel("k", [dtypes.f32])
    b.call(helper, [b.buffers[0], b.const(2.5, dtypes.f32)])
    x = np.array([3], np.float32)
    compiled = Compiled([b.finish(), helper])
    compiled("k", [x])
    assert x[0] == 7.5
    assert "define internal void @double_it(ptr %p0, float %p1)" in compiled.text


def test_noalias_reaches_the_parameters() -> None:
    b = KernelBuilder.kernel("k", [dtypes.f32, dtypes.f32], n_dims=1, noalias=True)
    b.store(b.buffers[1], b.dims[0], b.mul(b.load(b.buffers[0], 0), 3.0))
    compiled = Compiled([b.finish()])
    x, y = np.array([2], np.float32), np.zeros(4, np.float32)
    compiled("k", [x, y], dims=[2])
    assert y.tolist() == [0, 0, 6, 0]
    assert "@k.body(ptr noalias %p0, ptr noalias %p1, i64 %p2," in compiled.text


@pytest.mark.parametrize("preset", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_every_target_links_without_a_symbol_from_outside(preset: str) -> None:
    target = Target.parse(preset)
    b = KernelBuilder.kernel("k", [dtypes.f32, dtypes.f64, dtypes.f16, dtypes.i32])
    f, d, h, i = b.buffers
    for ref in (f, d, h):
        for lanes in (1, target.lanes(ref.dtype.itemsize)):
            x = b.load(ref, 0, lanes)
            for name in ("exp", "log", "tanh", "erf", "sin", "cos", "expm1", "log1p", "floor", "round", "sigmoid"):
                x = getattr(b, name)(x)
            b.store(ref, 0, b.mod(b.pow(x, x), b.fma(x, x, x)))
    n = b.load(i, 0, 8)
    b.store(i, 0, b.pow(b.floordiv(b.cast(b.cast(n, dtypes.f64), dtypes.i32), b.add(n, 3)), n))
    # The linker refuses an object with an undefined symbol.
    code = link_objects([compile_to_object(emit_kernels([b.finish()], target), target)])
    assert "k" in code.symbols


def instructions(body: Callable[[KernelBuilder, int], None], lanes: int, buffers: list[dtypes.DType]) -> int:
    target = Target.parse("x86-64-v4")
    b = KernelBuilder.kernel("k", buffers)
    body(b, lanes)
    text = compile_to_assembly(emit_kernels([b.finish()], target), target)
    return sum(line.startswith("\t") and not line.startswith("\t.") for line in text.splitlines())


CASTS = [("f32", "i32"), ("f32", "u8"), ("f64", "i64"), ("u32", "f32"), ("f32", "bf16"), ("f16", "f32"), ("i64", "f64")]


@pytest.mark.parametrize(("source", "goal"), CASTS)
def test_conversions_of_vectors_stay_in_vectors(source: str, goal: str) -> None:
    types = [dtypes.as_dtype(source), dtypes.as_dtype(goal)]

    def body(b: KernelBuilder, lanes: int) -> None:
        x = b.load(b.buffers[0], 0, lanes)
        b.store(b.buffers[1], 0, b.cast(x, types[1].compute))

    assert instructions(body, 8, types) < 2 * instructions(body, 1, types)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin", "floor", "round", "sigmoid"])
def test_math_of_vectors_stays_in_vectors(name: str) -> None:
    def body(b: KernelBuilder, lanes: int) -> None:
        b.store(b.buffers[0], 0, getattr(b, name)(b.load(b.buffers[0], 0, lanes)))

    assert instructions(body, 16, [dtypes.f32]) < 2 * instructions(body, 1, [dtypes.f32])


def test_what_has_no_text_is_refused_by_name() -> None:
    block = Block()
    block.add_op(memref.AllocOp([], [], memref_type(scalar_type(dtypes.f32), 4)))
    block.add_op(func.ReturnOp())
    function = func.FuncOp("f", ((), ()), Region(block))
    with pytest.raises(CompilerError, match=r"memref\.alloc: no LLVM text for this op"):
        emit_kernels([function], V3)


def test_a_file_name_cannot_break_out_of_its_comment() -> None:
    b = KernelBuilder.kernel("k", [dtypes.i64], location=("a\nret void", 3))
    b.store(b.buffers[0], 0, b.begin)
    assert "ret void:3" not in emit_kernels([b.finish()], V3)
