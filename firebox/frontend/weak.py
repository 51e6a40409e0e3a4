"""`WeakTensor`: a Python number as an argument of a traced function."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

from firebox.dialects.nd.base import NdOp
from firebox.dialects.nd.operators import Operators
from firebox.frontend.tensor import Tensor


class WeakTensor(Tensor):
    """A number that is known only when a program runs: beside a tensor it takes the tensor's type, as numbers do."""

    __slots__ = ()
    is_weak: ClassVar[bool] = True

    def apply(self, op: type[NdOp], operands: Sequence[Operators], params: dict[str, Any]) -> tuple[Self, ...]:
        results = super().apply(op, operands, params)
        return cast("tuple[Self, ...]", tuple(map(weak, results))) if _all_weak(operands) else results

    def one(self, name: str, *operands: Operators, **params: Any) -> Self:
        result = super().one(name, *operands, **params)
        return weak(result) if _all_weak(operands) else result  # type: ignore[return-value]

    def _binary(self, name: str, other: Any, swap: bool = False) -> Self:
        result = super()._binary(name, other, swap)
        return result if type(other) is Tensor else weak(result)  # type: ignore[return-value]


def weak(tensor: Tensor) -> WeakTensor:
    """A tensor as a number of a traced function."""
    result = WeakTensor.__new__(WeakTensor)
    result._var = tensor._var
    return result


def _all_weak(operands: Sequence[Operators]) -> bool:
    return all(isinstance(o, WeakTensor) for o in operands)
