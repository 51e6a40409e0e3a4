"""The text of OpenCL kernels: parameters, comments, assembly, determinism, what is refused."""

import re

import pytest
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from firebox import dtypes
from firebox.dialects.kernel.builder import KernelBuilder
from firebox.dtypes import DType
from firebox.errors import CompilerError
from firebox.lowering.opencl.emit import emit_source
from firebox.lowering.opencl.text import SUM, Expr, binary, choice, float_literal, signed_literal, unsigned_literal
from firebox.runtime.opencl_target import OpenClTarget

GENERIC = OpenClTarget.generic()


def kernel(buffers: list[DType], n_dims: int = 0, narrow: bool = True) -> KernelBuilder:
    return KernelBuilder.device_kernel("k", buffers, n_dims, group=32, narrow=narrow, location=("/home/a/model.py", 12))


def emitted(k: KernelBuilder, target: OpenClTarget = GENERIC) -> str:
    return emit_source([k.finish()], target)


def test_parameters_are_those_of_the_convention() -> None:
    k = kernel([dtypes.f32, dtypes.bf16], n_dims=2)
    k.store(k.buffers[1], k.dims[0], k.load(k.buffers[0], k.dims[1]))
    k.store(k.workspace, 0, k.const(1, dtypes.u8))
    k.fail(1, 2)
    text = emitted(k)
    assert "__kernel __attribute__((reqd_work_group_size(32, 1, 1)))" in text
    (parameters,) = re.findall(r"void k\(([^)]*)\)", text)
    assert [" ".join(p.split()) for p in parameters.split(",")] == [
        "const __global uchar *a0_object",
        "ulong a0_offset",
        "__global uchar *a1_object",
        "ulong a1_offset",
        "long d0_long",
        "long d1_long",
        "__global uchar *workspace_object",
        "ulong workspace_offset",
        "__global ulong *status",
    ]


def test_a_kernel_says_what_it_computes() -> None:
    k = kernel([dtypes.f32])
    k.store(k.buffers[0], 0, 1.0)
    function = k.finish()
    texts = [", ".join(["reduce_sum"] * 12), "model.py:3, model.py:4", "a\\", "no\nline"]
    function.attributes["kernel.about"] = ArrayAttr([StringAttr(text) for text in texts])
    comment, _, _ = emit_source([function], GENERIC).rpartition("__kernel")
    assert comment.splitlines()[-4:] == [
        "// " + ", ".join(["reduce_sum"] * 9) + ",",
        "// " + ", ".join(["reduce_sum"] * 3),
        "// model.py:3, model.py:4",
        "// no line",
    ]


def test_workspace_and_status_are_passed_only_where_they_are_used() -> None:
    k = kernel([dtypes.f32])
    k.store(k.buffers[0], 0, 1.0)
    text = emitted(k)
    assert "workspace" not in text and "status" not in text


@pytest.mark.parametrize(("narrow", "type_"), [(True, "int"), (False, "long")])
def test_indices_are_as_wide_as_they_have_to_be(narrow: bool, type_: str) -> None:
    k = kernel([dtypes.f32], 1, narrow)
    k.loop(0, k.dims[0], 1, [], lambda i, _: k.store(k.buffers[0], i, 0.0))
    assert f"for ({type_} i = 0" in emitted(k)


def test_lines_of_the_source_stand_beside_their_statements() -> None:
    k = kernel([dtypes.f32, dtypes.f32])
    x = k.load(k.buffers[0], 0)
    k.location = ("/home/a/model.py", 15)
    k.store(k.buffers[1], 0, k.mul(x, 2.0))
    text = emitted(k)
    assert "= a0[0];  // model.py:12" in text
    assert re.search(r"a1\[0\] = v\d \* 2\.0f;  // model\.py:15", text)
    assert "/home" not in text


def test_the_same_kernel_gives_the_same_text() -> None:
    def text() -> str:
        k = kernel([dtypes.f64, dtypes.f64], 1)
        k.loop(0, k.dims[0], 1, [], lambda i, _: k.store(k.buffers[1], i, k.sin(k.exp(k.load(k.buffers[0], i)))))
        return emitted(k)

    first = text()
    assert first == text()
    assert first.startswith("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#pragma OPENCL FP_CONTRACT OFF\n")
    assert first.count("static double fb_exp_f64(") == 1


def test_a_value_that_is_used_once_has_no_name() -> None:
    k = kernel([dtypes.f32, dtypes.f32])
    x = k.load(k.buffers[0], 0)
    k.store(k.buffers[1], 0, k.mul(k.add(x, 1.0), k.sub(x, k.mul(x, 3.0))))
    assert "a1[0] = (v1 + 1.0f) * (v1 - v1 * 3.0f);" in emitted(k)


def test_assembly_becomes_an_asm_statement() -> None:
    k = kernel([dtypes.f32, dtypes.i32])
    text = '{ .reg .u32 t; mov.u32 t, %laneid; add.u32 $0, t, $2; mov.f32 $1, $3; } // $$ "x"'
    number, real = k.asm_many(
        text, "=r,=f,r,f,~{memory}", [k.const(3, dtypes.i32), k.load(k.buffers[0], 0)], [dtypes.i32, dtypes.f32]
    )
    k.store(k.buffers[0], 0, real)
    k.store(k.buffers[1], 0, number)
    k.asm_many("prefetch.global.L2 [$0];", "l", [k.buffers[0]], [])
    found = emitted(k, OpenClTarget.h200())
    assert (
        'asm volatile("{ .reg .u32 t; mov.u32 t, %%laneid; add.u32 %0, t, %2; mov.f32 %1, %3; } // $ \\"x\\""'
        ' : "=r"(v2), "=f"(v3) : "r"(3u), "f"(v1) : "memory");'
    ) in found
    assert 'asm volatile("prefetch.global.L2 [%0];" : : "l"((ulong)a0));' in found


@pytest.mark.parametrize(
    ("text", "constraints", "match"), [("x ${0:h}", "r", "modifiers"), ("x", "r,r", "one constraint")]
)
def test_assembly_that_cannot_be_written_is_refused(text: str, constraints: str, match: str) -> None:
    k = kernel([dtypes.i32])
    k.asm_many(text, constraints, [k.const(3, dtypes.i32)], [])
    with pytest.raises(CompilerError, match=match):
        emitted(k)


def test_nvidia_has_instructions_for_maxima_and_half_floats() -> None:
    def text(target: OpenClTarget) -> str:
        k = kernel([dtypes.f16, dtypes.f32])
        k.store(k.buffers[0], 0, k.max(k.load(k.buffers[0], 0), k.load(k.buffers[1], 0)))
        return emitted(k, target)

    here, there = text(GENERIC), text(OpenClTarget.h200())
    for instruction in ("max.NaN.f32 %0, %1, %2;", "cvt.f32.f16 %0, %1;", "cvt.rn.f16.f32 %0, %1;"):
        assert instruction in there and instruction not in here


def test_vectors_that_opencl_lacks_are_refused() -> None:
    k = kernel([dtypes.f32])
    k.store(k.buffers[0], 0, k.broadcast(1.0, 32, dtypes.f32))
    with pytest.raises(CompilerError, match="no vectors of this length"):
        emitted(k)


def test_a_kernel_of_the_cpu_is_refused() -> None:
    k = KernelBuilder.kernel("k", [dtypes.f32])
    with pytest.raises(CompilerError, match="not an OpenCL kernel"):
        emit_source([k.finish()], GENERIC)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (binary("-", Expr("a"), binary("-", Expr("b"), Expr("c"))), "a - (b - c)"),
        (binary("-", binary("-", Expr("a"), Expr("b")), Expr("c")), "a - b - c"),
        (binary("*", binary("+", Expr("a"), Expr("b")), Expr("c")), "(a + b) * c"),
        (binary("&", binary("<<", Expr("a"), Expr("3")), Expr("b")), "(a << 3) & b"),
        (binary("||", binary("&&", Expr("a"), Expr("b")), Expr("c")), "(a && b) || c"),
        (binary("<", Expr("a + b", SUM), Expr("c")), "a + b < c"),
        (choice(binary("|", Expr("a"), Expr("b")), Expr("c"), Expr("d")), "(a | b) ? c : d"),
        (float_literal(0.1, "float"), "0.1f"),
        (float_literal(1e-45, "float"), "1e-45f"),
        (float_literal(-0.0, "double"), "-0.0"),
        (float_literal(float("-inf"), "float"), "-INFINITY"),
        (unsigned_literal(-1, "i32"), "0xffffffffu"),
        (unsigned_literal(7, "i64"), "7ul"),
        (signed_literal(-(1 << 31), "i32"), "INT_MIN"),
        (signed_literal(200, "i8"), "(char)-56"),
    ],
)
def test_expressions_and_constants(expr: Expr, text: str) -> None:
    assert expr.text == text
