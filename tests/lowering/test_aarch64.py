"""Code for aarch64 runs, in an emulator: relocations, the entry, kernels, math and the pool's inline path."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from firebox import dims
from firebox.dialects.nd.value import Value
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from firebox.lowering.pipeline import lower
from firebox.runtime.elf import link_objects
from firebox.runtime.llvm import compile_to_object
from firebox.runtime.pool import pool_image
from firebox.runtime.target import Target
from tests.programs import program

unicorn = pytest.importorskip("unicorn")
arm64 = pytest.importorskip("unicorn.arm64_const")

TARGET = Target.parse("aarch64")
CODE, POOL, STACK, HEAP, STOP = 0x10000000, 0x20000000, 0x30000000, 0x40000000, 0x7F000000
MIB = 1 << 20
Array = np.ndarray[Any, Any]


class Machine:
    """Memory and one processor."""

    def __init__(self) -> None:
        self.cpu = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        for base, size in ((CODE, 4 * MIB), (POOL, MIB), (STACK, MIB), (HEAP, 64 * MIB), (STOP, MIB)):
            self.cpu.mem_map(base, size)
        self.free = HEAP

    def allocate(self, data: bytes) -> int:
        address = self.free
        self.cpu.mem_write(address, data or bytes(8))
        self.free += -(-max(len(data), 8) // 64) * 64
        return address

    def slots(self, values: Sequence[int]) -> int:
        return self.allocate(struct.pack(f"<{len(values)}q", *values) if values else b"")

    def call(self, address: int, *arguments: int) -> None:
        for k, value in enumerate(arguments):
            self.cpu.reg_write(getattr(arm64, f"UC_ARM64_REG_X{k}"), value)
        self.cpu.reg_write(arm64.UC_ARM64_REG_SP, STACK + MIB - 4096)
        self.cpu.reg_write(arm64.UC_ARM64_REG_X30, STOP)
        self.cpu.emu_start(address, STOP)


def emulate(function: Callable[..., Any], specs: Sequence[str], arrays: Sequence[Array], **sizes: int) -> list[Array]:
    """Results of a program compiled for aarch64."""
    lowered = lower(program(function, *specs), TARGET)
    image = link_objects([compile_to_object(lowered.text, TARGET)])
    pool = pool_image(TARGET)
    machine = Machine()
    machine.cpu.mem_write(CODE, image.code)
    machine.cpu.mem_write(POOL, pool.code)
    program_ = lowered.program
    env = dict(sizes)
    outputs = [bytes(dims.evaluate(s.nbytes, env)) for s in program_.outputs]
    arena = bytes(dims.evaluate(program_.arena, {**env, "threads": 1}))
    environment = machine.slots([1, 1, POOL + pool.symbols["fb_parallel"], machine.allocate(bytes(8192)), *[0] * 12])
    out = [machine.allocate(o) for o in outputs]
    status = machine.allocate(bytes(32))
    machine.call(
        CODE + image.symbols[program_.entry],
        environment,
        machine.slots([machine.allocate(np.ascontiguousarray(a).tobytes()) for a in arrays]),
        machine.slots([env[name] for name in program_.dims]),
        machine.slots([*out, machine.allocate(arena)]),
        status,
    )
    assert struct.unpack("<4q", machine.cpu.mem_read(status, 32)) == (0, 0, 0, 0)
    found = []
    for spec, address, size in zip(program_.outputs, out, outputs, strict=True):
        shape = tuple(dims.evaluate(d, env) for d in spec.shape)
        raw = bytes(machine.cpu.mem_read(address, max(len(size), 1)))[: len(size)]
        found.append(np.frombuffer(raw, spec.dtype.numpy).reshape(shape))
    return found


def check(function: Callable[..., Any], specs: Sequence[str], arrays: Sequence[Array], **sizes: int) -> None:
    expected = interpret(main_function(program(function, *specs)), arrays)
    found = emulate(function, specs, arrays, **sizes)
    for e, f in zip(expected, found, strict=True):
        np.testing.assert_allclose(f.astype(np.float64), e.astype(np.float64), rtol=2e-6, atol=2e-6)


def normal(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_a_chain_with_math() -> None:
    check(lambda x: (x.exp().tanh() + x.sin() * x.erf(), x.sigmoid().log()), ["f32[7, 13]"], [normal(7, 13)])


def test_rows_of_a_symbolic_batch() -> None:
    def softmax(x: Value) -> Value:
        e = (x - x.max(-1, True)).exp()
        return e / e.sum(-1, True)

    check(softmax, ["f32[b, 37]"], [normal(5, 37)], b=5)


def test_a_contraction_with_its_epilogue() -> None:
    def linear(x: Value, w: Value, b: Value) -> Value:
        y = x.one("contract", x, w, spec="b k, k n -> b n", sizes=(9, 16, 24)) + b
        return y.maximum(0.0)

    check(linear, ["f32[9, 16]", "f32[16, 24]", "f32[24]"], [normal(9, 16), normal(16, 24), normal(24)])


def test_many_units_run_through_the_pool() -> None:
    check(lambda x: (x * 2.0, x.transpose() + 1.0), ["f32[300, 200]"], [normal(300, 200)])


def test_integers_and_half_floats() -> None:
    x = np.arange(-30, 30, dtype=np.int32)
    check(lambda v: (v // 7, v % 7, v.astype("f16") / 3.0, v.astype("bf16") * 1.5), ["i32[60]"], [x])


def test_sort_scan_and_gather() -> None:
    indices = np.array([3, 0, 2, 2], np.int64)
    check(
        lambda x, at: (x.cumsum(1), x.one("sort", x, axis=1, descending=False), x.take(at)),
        ["f32[4, 50]", "i64[4]"],
        [normal(4, 50), indices],
    )
