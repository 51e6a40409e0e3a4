"""Random bits on a device are those of the CPU, bit by bit."""

import numpy as np
import pytest

from firebox.dialects.nd.ops.random import RandomBits
from firebox.lowering.generate.gpu.loops import LOOPS
from firebox.lowering.interpret import interpret
from firebox.lowering.module import main_function
from tests.lowering.gpu.launches import run
from tests.programs import program


@pytest.mark.parametrize(("shape", "offset"), [((1,), 0), ((5,), 3), ((3, 7), 11), ((64, 129), 2**40)], ids=str)
@pytest.mark.parametrize("seeds", [1, 3])
def test_bits_equal_those_of_the_cpu(shape: tuple[int, ...], offset: int, seeds: int) -> None:
    key = np.random.default_rng(1).integers(0, 2**64, (seeds, 2), np.uint64)
    key[0] = 2**63 + 5, 2**32 - 2

    def bits(k: object) -> object:
        return k.apply(RandomBits, (k,), {"shape": shape, "offset": offset})[0]  # type: ignore[attr-defined]

    spec = f"u64[{seeds}, 2]"
    (expected,) = interpret(main_function(program(bits, spec)), [key])  # type: ignore[arg-type]
    (found,) = run(LOOPS, bits, [spec], [key])  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, expected)
