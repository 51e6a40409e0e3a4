"""The kernel builder's comparisons and selection."""

from collections.abc import Callable

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from firebox.dialects.kernel.core import Core
from firebox.dialects.kernel.ops import FLOAT_PREDICATES, INTEGER_PREDICATES, CmpOp, SelectOp
from firebox.dialects.kernel.values import INDEX, Operand, Val
from firebox.dtypes import Kind, bool_
from firebox.errors import CompilerError

_FLOAT = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
_PREDICATES: dict[str, Attribute] = {name: StringAttr(name) for name in INTEGER_PREDICATES + FLOAT_PREDICATES}

_FOLDS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


class Compare(Core):
    """Comparisons give bool; with NaN all are false except `ne`."""

    def eq(self, a: Operand, b: Operand) -> Val:
        """a == b."""
        return self._compare("eq", a, b)

    def ne(self, a: Operand, b: Operand) -> Val:
        """a != b, true if either is NaN."""
        return self._compare("ne", a, b)

    def lt(self, a: Operand, b: Operand) -> Val:
        """a < b."""
        return self._compare("lt", a, b)

    def le(self, a: Operand, b: Operand) -> Val:
        """a <= b."""
        return self._compare("le", a, b)

    def gt(self, a: Operand, b: Operand) -> Val:
        """a > b."""
        return self._compare("gt", a, b)

    def ge(self, a: Operand, b: Operand) -> Val:
        """a >= b."""
        return self._compare("ge", a, b)

    def _compare(self, name: str, a: Operand, b: Operand) -> Val:
        a, b = self._pair(a, b)
        if a.dtype is INDEX and a.const is not None and b.const is not None:
            return self.const(_FOLDS[name](int(a.const), int(b.const)), bool_)
        kind = a.dtype.kind
        table = _FLOAT if kind is Kind.FLOAT else _SIGNED if kind is Kind.INT else _UNSIGNED
        return self._cmp(table[name], a, b)

    def _cmp(self, predicate: str, a: Val, b: Val) -> Val:
        """One comparison by a predicate of kernel.cmp."""
        return self._pure(CmpOp, (a, b), bool_, a.lanes, {"predicate": _PREDICATES[predicate]}, predicate)

    def select(self, cond: Val, a: Operand, b: Operand) -> Val:
        """cond ? a : b, lane by lane; a scalar condition chooses between whole vectors."""
        a, b = self._pair(a, b)
        if cond.dtype is not bool_:
            raise CompilerError("a condition must be bool", op="kernel builder select", found=cond.dtype.name)
        if cond.const is not None:
            return self.broadcast(a if cond.const else b, max(a.lanes, cond.lanes))
        if a is b:
            return a
        if cond.lanes != a.lanes and cond.lanes != 1:
            a, b = self.broadcast(a, cond.lanes), self.broadcast(b, cond.lanes)
        result = self._pure(SelectOp, (cond, a, b), a.dtype, a.lanes, {})
        result.nonneg = a.nonneg and b.nonneg
        return result
