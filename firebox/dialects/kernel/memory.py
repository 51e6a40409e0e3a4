"""The kernel builder's memory: loads, stores, gathers, stack arrays, views."""

from collections.abc import Sequence

from xdsl.dialects import memref, vector
from xdsl.dialects.builtin import BoolAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute

from firebox.dialects.kernel import ops
from firebox.dialects.kernel.core import Properties
from firebox.dialects.kernel.mathematics import Mathematics
from firebox.dialects.kernel.values import INDEX, Operand, Ref, Val, value_type
from firebox.dialects.xdsl_compat import I64, append, create, integer_attr, memref_type, scalar_type
from firebox.dtypes import DType, bf16, bool_, f16, i8, i32, i64, u8
from firebox.errors import CompilerError

_NONTEMPORAL = BoolAttr.from_bool(True)
_UNIT = UnitAttr()


class Memory(Mathematics):
    """Access to flat memory. Indices count elements; f16, bf16 and bool convert to and from f32 and bool here."""

    def load(
        self,
        ref: Ref,
        index: Operand,
        lanes: int = 1,
        mask: Val | None = None,
        fill: Operand | None = None,
        invariant: bool = False,
        raw: bool = False,
    ) -> Val:
        """Elements from `index` on.

        Args:
            ref: the memory.
            index: of the first element.
            lanes: how many; 1 gives a scalar.
            mask: lanes that are read; the others are not touched and take `fill` (0 by default).
            fill: value of the lanes that are not read.
            invariant: the memory does not change while the kernel runs, so that the load moves out of loops and equal
                loads are one. The index must be in range wherever its operands are defined.
            raw: keep f16 and bf16 as they are stored (for moves only), and bool as u8.
        """
        at = self.index(index)
        if mask is not None and mask.const is not True:
            return self._load_masked(ref, at, lanes, mask, fill, invariant, raw)
        cls = memref.LoadOp if lanes == 1 else vector.LoadOp
        return self._loaded(cls, (ref, at), ref.dtype, lanes, {}, invariant, raw)

    def _load_masked(
        self, ref: Ref, at: Val, lanes: int, mask: Val, fill: Operand | None, invariant: bool, raw: bool
    ) -> Val:
        if lanes == 1:
            empty = self._filling(ref, fill, 1, raw)
            return self.if_(mask, lambda: [self.load(ref, at, raw=raw)], lambda: [empty])[0]
        passthru = self._stored(self._filling(ref, fill, lanes, raw), ref, raw)
        operands = (ref, at, self.broadcast(mask, lanes), passthru)
        return self._loaded(vector.MaskedLoadOp, operands, ref.dtype, lanes, {}, invariant, raw)

    def _filling(self, ref: Ref, fill: Operand | None, lanes: int, raw: bool) -> Val:
        if isinstance(fill, Val):
            return self.broadcast(fill, lanes)
        value = self.broadcast(fill or 0, lanes, u8 if raw and ref.dtype is bool_ else ref.dtype)
        return self._narrow(value, ref.dtype) if raw and ref.dtype in (f16, bf16) else value

    def _loaded(
        self,
        cls: type[memref.LoadOp] | type[vector.LoadOp] | type[vector.MaskedLoadOp] | type[ops.GatherOp],
        operands: Sequence[Val | Ref],
        dtype: DType,
        lanes: int,
        properties: Properties,
        invariant: bool,
        raw: bool,
    ) -> Val:
        """A load op, and what turns the stored element into a value."""
        memory = u8 if dtype is bool_ else dtype
        if invariant:
            value = self._pure(cls, operands, memory, lanes, properties, "load", costly=True)
        else:
            op = self._effect(cls, operands, (value_type(memory, lanes),), properties)
            value = Val(op.results[0], memory, lanes, self.level)
        if raw:
            return value
        if dtype is bool_:
            return self.ne(value, 0)
        return self._widen(value) if dtype in (f16, bf16) else value

    def store(
        self,
        ref: Ref,
        index: Operand,
        value: Operand,
        mask: Val | None = None,
        nontemporal: bool = False,
        raw: bool = False,
    ) -> None:
        """Write a scalar or a vector from `index` on; f32 rounds to the memory's f16 or bf16, half to even.

        Args:
            ref: the memory.
            index: of the first element.
            value: of the memory's type (f32 for f16 and bf16).
            mask: lanes that are written.
            nontemporal: bypass the caches; the address must then be aligned to the whole vector.
            raw: the value is as stored (see `load`).
        """
        at = self.index(index)
        stored = self._stored(self._as_val(value, ref.dtype.compute), ref, raw)
        if mask is None or mask.const is True:
            cls = memref.StoreOp if stored.lanes == 1 else vector.StoreOp
            self._effect(cls, (stored, ref, at), (), {"nontemporal": _NONTEMPORAL} if nontemporal else {})
        elif stored.lanes == 1 and mask.lanes == 1:
            self.if_(mask, lambda: self._effect_scalar_store(stored, ref, at))
        else:
            stored = self.broadcast(stored, max(stored.lanes, mask.lanes))
            self._effect(vector.MaskedStoreOp, (ref, at, self.broadcast(mask, stored.lanes), stored), (), {})

    def _effect_scalar_store(self, stored: Val, ref: Ref, at: Val) -> None:
        self._effect(memref.StoreOp, (stored, ref, at), (), {})

    def _stored(self, value: Val, ref: Ref, raw: bool) -> Val:
        """The value in the form that the memory holds."""
        dtype = ref.dtype
        if not raw and dtype is bool_ and value.dtype is bool_:
            return self._cast(value, u8)
        if not raw and dtype in (f16, bf16) and value.dtype is dtype.compute:
            return self._narrow(value, dtype)
        if value.dtype is INDEX and dtype in (i32, i64):
            return self._from_index(value, dtype)
        if value.dtype is dtype or (raw and dtype is bool_ and value.dtype is u8):
            return value
        raise CompilerError(
            "value and memory differ", op="kernel builder store", expected=dtype.name, found=value.dtype.name
        )

    def gather(
        self,
        ref: Ref,
        indices: Val,
        mask: Val | None = None,
        fill: Operand | None = None,
        invariant: bool = False,
        raw: bool = False,
    ) -> Val:
        """One element for each lane of `indices` (i32 or i64, signed, in range where `mask` is true)."""
        if indices.lanes == 1:
            return self.load(ref, indices, 1, mask, fill, invariant, raw)
        lanes = indices.lanes
        passthru = self._stored(self._filling(ref, fill, lanes, raw), ref, raw)
        operands = (ref, self._lane_indices(indices), self._full(mask, lanes), passthru)
        return self._loaded(ops.GatherOp, operands, ref.dtype, lanes, {}, invariant, raw)

    def scatter(self, ref: Ref, indices: Val, value: Operand, mask: Val | None = None, raw: bool = False) -> None:
        """Write one element for each lane of `indices`; of equal indices the last lane wins."""
        if indices.lanes == 1:
            self.store(ref, indices, value, mask, raw=raw)
            return
        lanes = indices.lanes
        stored = self._stored(self.broadcast(value, lanes, ref.dtype), ref, raw)
        self._effect(ops.ScatterOp, (ref, self._lane_indices(indices), self._full(mask, lanes), stored), (), {})

    def _lane_indices(self, indices: Val) -> Val:
        if indices.dtype in (i32, i64):
            return indices
        return self.cast(indices, i32 if indices.dtype.itemsize < 4 else i64)

    def _full(self, mask: Val | None, lanes: int) -> Val:
        return self.broadcast(True if mask is None else mask, lanes, bool_)

    def atomic(self, kind: str, ref: Ref, index: Operand, value: Operand) -> Val:
        """Read-modify-write one element: add, max, min, and, or, xor, exchange; gives the value before."""
        stored = self._stored(self._as_val(value, ref.dtype), ref, raw=False)
        properties: dict[str, Attribute] = {"kind": StringAttr(kind)}
        if ref.dtype.is_signed:
            properties["signed"] = _UNIT
        op = self._effect(ops.AtomicOp, (ref, self.index(index), stored), (stored.ssa.type,), properties)
        return Val(op.results[0], stored.dtype, 1, self.level)

    def prefetch(self, ref: Ref, index: Operand, write: bool = False, locality: int = 3) -> None:
        """Ask for the cache line of an element; locality 3 is L1, 2 is L2."""
        properties: dict[str, Attribute] = {"locality": integer_attr(locality, I64)}
        if write:
            properties["write"] = _UNIT
        self._effect(ops.PrefetchOp, (ref, self.index(index)), (), properties)

    def alloc_stack(self, dtype: DType, size: int) -> Ref:
        """A stack array of `size` elements, 64-byte aligned, not zeroed; it lives for the whole function."""
        type_ = memref_type(scalar_type(dtype), size)
        op = create(ops.AllocOp, (), (type_,), {"space": StringAttr("stack")}, self._loc)
        append(self._scopes[0].block, op)
        return Ref(op.results[0], dtype, 0)

    def alloc_local(self, dtype: DType, size: int) -> Ref:
        """An array of `size` elements that the work-items of a group share, 16-byte aligned, not zeroed."""
        type_ = memref_type(scalar_type(dtype), size)
        op = create(ops.AllocOp, (), (type_,), {"space": StringAttr("local")}, self._loc)
        append(self._scopes[0].block, op)
        return Ref(op.results[0], dtype, 0)

    def view(self, ref: Ref, byte_offset: Operand, dtype: DType) -> Ref:
        """Part of a byte buffer as elements of another type; aligned as the offset is."""
        if ref.dtype not in (i8, u8):
            raise CompilerError("a view is of bytes", op="kernel builder view", expected="i8", found=ref.dtype.name)
        at = self.index(byte_offset)
        level = max(ref.level, at.level)
        op = create(ops.ViewOp, (ref.ssa, at.ssa), (memref_type(scalar_type(dtype)),), {}, self._loc)
        append(self._scopes[level].block, op)
        return Ref(op.results[0], dtype, level)

    def opaque(self, ref: Ref) -> Ref:
        """The same memory through a pointer that the back end cannot relate to `ref`: keeps loads apart."""
        op = self._effect(ops.OpaqueOp, (ref,), (ref.ssa.type,), {})
        return Ref(op.results[0], ref.dtype, self.level)

    def asm(
        self, text: str, constraints: str, operands: Sequence[Val | Ref], dtype: DType | None = None, lanes: int = 1
    ) -> Val | None:
        """Inline assembly as in LLVM IR, with one result of `dtype` or none."""
        results = self._asm(text, constraints, operands, () if dtype is None else (dtype,), lanes)
        return results[0] if results else None

    def asm_many(
        self, text: str, constraints: str, operands: Sequence[Val | Ref], dtypes: Sequence[DType]
    ) -> list[Val]:
        """Inline assembly with one scalar result for each of `dtypes`."""
        return self._asm(text, constraints, operands, dtypes, 1)

    def _asm(
        self, text: str, constraints: str, operands: Sequence[Val | Ref], dtypes: Sequence[DType], lanes: int
    ) -> list[Val]:
        properties: dict[str, Attribute] = {"text": StringAttr(text), "constraints": StringAttr(constraints)}
        op = self._effect(ops.AsmOp, operands, [value_type(d, lanes) for d in dtypes], properties)
        return [Val(r, d, lanes, self.level) for r, d in zip(op.results, dtypes, strict=True)]
