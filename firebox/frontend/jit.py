"""`jit`: a function traced once for each kind of arguments and run as one compiled program."""

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from firebox import dims
from firebox.dialects.nd.aval import Aval, Shape
from firebox.dims import DimLike
from firebox.errors import FireboxError, TraceError, UserError
from firebox.frontend import execute, tree
from firebox.frontend.backends import backend_of
from firebox.frontend.devices import current_device
from firebox.frontend.inspection import Lowered, parse_spec
from firebox.frontend.jit_trace import Scalar, TracedFunction, trace_function
from firebox.frontend.tensor import Tensor, as_tensor, from_array, wrap
from firebox.frontend.trace import STATE, CallNode, Failure, LeafVar, Var, intern, record_region
from firebox.frontend.tree import TreeDef
from firebox.runtime.device import Device
from firebox.runtime.memory import Buffer
from firebox.signature import TensorSpec

MAX_VARIANTS = 8
"""Programs kept for one kind of arguments that differ in sizes or numbers."""
_MAX_PREPARED = 1024
_ALONE = 3  # references to a buffer that only a list holds: the list's, the loop variable's, the call's

spec = parse_spec


class _MissError(Exception):
    """A prepared call does not fit any more."""


class Variant:
    """One compiled trace.

    Attributes:
        leaves: what it was traced for: an `Aval`, a `Scalar`, or a fixed value for each leaf of the arguments.
        traced: what tracing found.
    """

    def __init__(self, leaves: Sequence[Any], traced: TracedFunction, device: Device, names: Sequence[str]) -> None:
        self.leaves = list(leaves)
        self.traced = traced
        self.device = device
        self.compiled = backend_of(device).compile(traced.plan, (), names)
        self.hidden = [(slot, traced.trace.reads[slot].aval, slot.is_flat) for slot in traced.trace.hidden]
        written = set(traced.written)
        first = len(traced.arguments)
        self.replaced = [(first + k, slot) for k, slot in enumerate(traced.trace.hidden) if slot in written]
        self.keys = [(generator, traced.trace.drawn[generator]) for generator in traced.trace.keys]
        self.constants = [execute.buffer_of(v) for v in traced.constants]
        self.absent = traced.trace.absent
        self.modes = traced.trace.modes
        self.dims = dims.names(*(d for v in traced.plan.inputs for d in v.aval.shape))
        self.is_static = not self.dims
        self.returns = [v.tracked and not (v.node is not None and v.node.consumed) for v in traced.outputs]
        self.count = len(traced.outputs) - len(traced.written)
        only = traced.results == [0] and traced.structure == tree.LEAF
        self.single = only and not traced.written and not traced.emptied

    def holds(self) -> bool:
        """Whether the cells and modes that it was traced with are as they were then."""
        for slot, aval, storage in self.hidden:
            if storage is not None and storage.is_dirty:
                storage.sync()
            value = slot.own()
            if value is None or value.aval is not aval or slot.storage is not None:
                return False
        return all(slot.own() is None for slot in self.absent) and all(
            getattr(owner, name) == value for owner, name, value in self.modes
        )


class Prepared:
    """A variant for given sizes: what a call needs, without searching.

    Attributes:
        sizes: values of the symbolic dims.
        avals: types of the outputs for these sizes.
    """

    __slots__ = ("avals", "sizes", "variant")

    def __init__(self, variant: Variant, sizes: Sequence[int]) -> None:
        self.variant = variant
        self.sizes = tuple(sizes)
        env = dict(zip(variant.dims, sizes, strict=True))
        self.avals = [
            intern(Aval(v.aval.dtype, tuple(dims.evaluate(d, env) for d in v.aval.shape))) for v in variant.traced.outputs
        ]

    def call(self, arguments: Sequence[Var], scalars: Sequence[Buffer]) -> Any:
        """Run on computed arguments.

        Raises:
            _MissError: the cells are not as they were, or an argument lives elsewhere.
        """
        variant = self.variant
        inputs: list[Any] = []
        flows = False
        for var in arguments:
            buffer = var.buffer
            if type(buffer) is not Buffer:
                buffer = execute.buffer_of(var)
            if var.device is not variant.device:
                raise _MissError
            flows = flows or var.tracked
            inputs.append(buffer)
        inputs += scalars
        if variant.hidden or variant.keys or variant.absent or variant.modes:
            flows = self._add_hidden(inputs) or flows
        inputs += variant.constants
        if flows and STATE.grad and any(variant.returns):
            return self._tracked(arguments, inputs)
        donate = self._take(inputs) if variant.replaced else None
        results = self._run(inputs, donate)
        if variant.single:
            return wrap(Var(self.avals[0], variant.device, buffer=results[0]))
        values = [Var(a, variant.device, buffer=b) for a, b in zip(self.avals, results, strict=True)]
        return self._finish(values)

    def _run(self, inputs: list[Buffer], donate: list[bool] | None) -> list[Buffer]:
        try:
            return self.variant.compiled(inputs, self.sizes, donate)
        except BaseException as error:
            for _, slot in self.variant.replaced if donate is not None else ():
                failed = Var(self.avals[0], self.variant.device)
                failed.buffer = Failure(error)
                slot.set(failed)
            raise

    def _add_hidden(self, inputs: list[Any]) -> bool:
        """Add what cells and random streams hold; tells whether derivatives flow through any of it."""
        variant = self.variant
        if not variant.holds():
            raise _MissError
        flows = False
        for slot, _, _ in variant.hidden:
            var = slot.own()
            assert var is not None
            flows = flows or var.tracked
            inputs.append(var.buffer if type(var.buffer) is Buffer else execute.buffer_of(var))
        for generator, blocks in variant.keys:
            inputs.append(execute.bytes_buffer(generator.advance(blocks)))
        return flows

    def _take(self, inputs: list[Any]) -> list[bool]:
        """Take from their cells the values that the call replaces: their memory may hold the new ones."""
        donate = [False] * len(inputs)
        for _, slot in self.variant.replaced:
            slot.drop()
        taken = {position for position, _ in self.variant.replaced}
        for position, buffer in enumerate(inputs):
            donate[position] = position in taken and sys.getrefcount(buffer) <= _ALONE and not buffer.exported
        return donate

    def _tracked(self, arguments: Sequence[Var], inputs: list[Buffer]) -> Any:
        """Run, and let a backward recompute the function to differentiate it."""
        variant = self.variant
        traced = variant.traced
        operands = [*arguments, *(v for slot, _, _ in variant.hidden if (v := slot.own()) is not None)]
        rest = inputs[len(operands) : len(traced.region.args)]
        operands += [Var(v.aval, variant.device, buffer=b) for v, b in zip(traced.region.args[len(operands) :], rest, strict=True)]
        results = self._run(inputs, None)
        node = CallNode(operands, traced.region, self.avals, True)
        values = record_region(node, variant.device)
        for inner in traced.region.nodes:
            inner.ran = True
        for var, tracked, buffer in zip(values, variant.returns, results, strict=True):
            var.tracked, var.buffer = tracked, buffer
            if not tracked:
                var.node = None
        return self._finish(values)

    def _finish(self, values: Sequence[Var]) -> Any:
        variant = self.variant
        traced = variant.traced
        for slot, var in zip(traced.written, values[variant.count :], strict=True):
            slot.set(var)
        for slot in traced.emptied:
            slot.set(None)
        leaves = [wrap(values[r]) if isinstance(r, int) else r[0] for r in traced.results]
        return tree.unflatten(traced.structure, leaves)


class Jitted:
    """A compiled function; see `jit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (),
        dim_names: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.static_argnums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self.static_argnames = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self.dim_names = dict(dim_names or {})
        self._prepared: dict[Any, Prepared] = {}
        self._groups: dict[Any, list[Variant]] = {}
        self._fixed: set[Any] = set()  # kinds of arguments whose sizes or numbers the function needs to know
        functools.update_wrapper(self, function, updated=())

    def __get__(self, owner: Any, kind: type | None = None) -> "Jitted":
        """As a method: each object has a compiled function of its own."""
        if owner is None:
            return self
        name = f"_jit_{self.function.__name__}"
        bound = vars(owner).get(name)
        if not isinstance(bound, Jitted):
            shifted = [n - 1 for n in self.static_argnums if n > 0]
            bound = Jitted(functools.partial(self.function, owner), shifted, self.static_argnames, self.dim_names)
            vars(owner)[name] = bound
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> "Jitted | None":
        return None if isinstance(self.function, functools.partial) else self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and STATE.trace is None:
            try:
                arguments = [a._var for a in args]
                prepared = self._prepared.get((STATE.grad, *[id(v.aval) for v in arguments]))
                if prepared is not None:
                    return prepared.call(arguments, ())
            except (AttributeError, _MissError):
                pass
        return self._search(args, kwargs)

    # ---- finding a variant ---------------------------------------------------------------------------------------

    def _search(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if STATE.trace is not None:  # part of a larger function
            return self.function(*args, **kwargs)
        leaves, structure = self._flatten(args, kwargs)
        tensors = [v._var for v in leaves if isinstance(v, Tensor)]
        device = tensors[0].device if tensors else current_device()
        tracked = tuple(isinstance(v, Tensor) and v._var.tracked and STATE.grad for v in leaves)
        group = (structure, tuple(map(_kind, leaves)), STATE.grad, device, tracked)
        prepared = self._match(group, leaves) or self._make(group, leaves, structure, device, tracked)
        numbers = [v for v, known in zip(leaves, prepared.variant.leaves, strict=True) if _is_input(known)]
        plain = all(type(v) is Tensor for v in args) and not kwargs and not any(tracked)
        if plain and len(self._prepared) < _MAX_PREPARED:
            self._prepared[(STATE.grad, *[id(v.aval) for v in tensors])] = prepared
        return prepared.call(tensors, [_number_buffer(v) for v in numbers])

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], TreeDef]:
        count = len(args)
        static = {n % count for n in self.static_argnums if -count <= n < count}
        given = tuple(_Static(a) if k in static else a for k, a in enumerate(args))
        named = {k: _Static(kwargs[k]) if k in self.static_argnames else kwargs[k] for k in sorted(kwargs)}
        leaves, structure = tree.flatten((given, named))
        return [_leaf(v) for v in leaves], structure

    def _match(self, group: Any, leaves: Sequence[Any]) -> Prepared | None:
        for variant in reversed(self._groups.get(group, ())):
            sizes = _unify(variant, leaves)
            if sizes is not None and variant.holds():
                return Prepared(variant, sizes)
        return None

    def _make(
        self, group: Any, leaves: Sequence[Any], structure: TreeDef, device: Device, tracked: Sequence[bool]
    ) -> Prepared:
        variants = self._groups.setdefault(group, [])
        if len(variants) >= MAX_VARIANTS:
            name = getattr(self.function, "__name__", "function")
            warnings.warn(
                f"jit: {name} has been compiled for {MAX_VARIANTS} different sizes, numbers or states; the oldest is dropped",
                stacklevel=3,
            )
            gone = variants.pop(0)
            self._prepared = {k: p for k, p in self._prepared.items() if p.variant is not gone}
        exact = [_exact(v) for v in leaves]
        wanted = exact if group in self._fixed or any(tracked) else self._generalised(variants, exact, structure)
        if wanted != exact:
            try:
                return self._add(variants, wanted, leaves, structure, device, tracked)
            except FireboxError:
                self._fixed.add(group)
        return self._add(variants, exact, leaves, structure, device, tracked)

    def _add(
        self,
        variants: list[Variant],
        wanted: Sequence[Any],
        leaves: Sequence[Any],
        structure: TreeDef,
        device: Device,
        tracked: Sequence[bool],
    ) -> Prepared:
        places = [w.value if isinstance(w, _Static) else w for w in wanted]
        traced = trace_function(self.function, structure, places, device, tracked)
        variant = Variant(wanted, traced, device, ())
        sizes = _unify(variant, leaves)
        assert sizes is not None
        variants.append(variant)
        return Prepared(variant, sizes)

    def _generalised(self, variants: Sequence[Variant], exact: Sequence[Any], structure: TreeDef) -> list[Any]:
        """What to trace for: sizes that a variant had differently become symbolic, numbers inputs."""
        if not variants:
            return self._named(exact, structure)
        names: dict[tuple[DimLike, int], str] = {}
        return [_merged(old, new, names) for old, new in zip(variants[-1].leaves, exact, strict=True)]

    def _named(self, exact: Sequence[Any], structure: TreeDef) -> list[Any]:
        """The types with the dims that `jit` was told are symbolic."""
        if not self.dim_names:
            return list(exact)
        positional, named = structure.children
        parameters = [p.name for p in inspect.signature(self.function).parameters.values()]
        owners = [n for n, c in zip(parameters, positional.children, strict=False) for _ in range(c.size)]
        owners += [n for n, c in zip(named.keys, named.children, strict=True) for _ in range(c.size)]
        unknown = set(self.dim_names) - set(parameters)
        if unknown:
            raise UserError("dims of an argument that there is not", op="jit", found=", ".join(sorted(unknown)))
        return [
            Aval(leaf.dtype, _with_names(leaf.shape, self.dim_names[owner])) if isinstance(leaf, Aval) and owner in self.dim_names else leaf
            for leaf, owner in zip(exact, owners, strict=True)
        ]

    # ---- inspection ----------------------------------------------------------------------------------------------

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for these arguments (tensors, or `spec`s of tensors), for inspection; nothing is run."""
        leaves, structure = self._flatten(args, kwargs)
        exact = [_exact(v) for v in leaves]
        places = [w.value if isinstance(w, _Static) else w for w in exact]
        device = next((v.device for v in leaves if isinstance(v, Tensor)), current_device())
        return Lowered(trace_function(self.function, structure, places, device), device)


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    dims: Mapping[str, Any] | None = None,
) -> Any:
    """A function that is traced once and then runs as one compiled program. Also a decorator, also of methods.

    Arguments and results may be nested lists, tuples, dicts and dataclasses of tensors. Cells that the function reads and
    writes are inputs and outputs that it does not show. A value cannot be read inside: there are no numbers yet.

    A second size of an argument makes that dim symbolic (0 and 1 stay as they are), a second value of a Python number makes
    the number an input; a function that needs them while tracing is compiled for each. At most 8 programs are kept.

    Args:
        static_argnums, static_argnames: arguments that are no data: any value, compared with ``==``.
        dims: names for sizes that vary, by argument: ``dims={"x": ("b", None)}`` or ``dims={"x": {0: "b"}}``.
    """
    if function is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames, dims=dims)
    return Jitted(function, static_argnums, static_argnames, dims)


# ---- leaves of arguments -----------------------------------------------------------------------------------------


class _Static:
    """An argument that is no data, compared by value where it can be hashed, else by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def _key(self) -> Any:
        try:
            hash(self.value)
        except TypeError:
            return id(self.value)
        return self.value

    def __hash__(self) -> int:
        return hash((type(self.value), self._key()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and type(self.value) is type(other.value) and bool(self._key() == other._key())


def _leaf(value: Any) -> Any:
    """A leaf as a tensor, a Python number, a spec, or something static."""
    if isinstance(value, Tensor):
        return value if type(value) is Tensor else as_tensor(value)
    if isinstance(value, np.ndarray | np.generic):
        return from_array(np.asarray(value), current_device(), copy=True)
    if isinstance(value, bool | int | float | TensorSpec | _Static):
        return value
    return _Static(value)


def _kind(leaf: Any) -> Any:
    """What must be equal for two leaves to share a group."""
    if isinstance(leaf, Tensor):
        return leaf.dtype, leaf.rank
    return leaf if isinstance(leaf, _Static) else type(leaf)


def _exact(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.aval
    if isinstance(leaf, TensorSpec):
        return Aval(leaf.dtype, leaf.shape)
    return leaf if isinstance(leaf, _Static) else Scalar(type(leaf), leaf)


def _is_input(known: Any) -> bool:
    return isinstance(known, Scalar) and known.value is None


def _number_buffer(value: bool | int | float) -> Buffer:
    kind = np.bool_ if isinstance(value, bool) else np.int64 if isinstance(value, int) else np.float64
    return execute.bytes_buffer(np.asarray(value, kind).tobytes())


def _unify(variant: Variant, leaves: Sequence[Any]) -> list[int] | None:
    """The values of the variant's dims for these leaves; None where they do not fit."""
    env: dict[str, int] = {}
    for known, leaf in zip(variant.leaves, leaves, strict=True):
        if isinstance(known, Scalar):
            if known.value is not None and repr(known.value) != repr(leaf):
                return None
        elif isinstance(known, Aval):
            for wanted, size in zip(known.shape, leaf.shape, strict=True):
                if isinstance(wanted, int):
                    if wanted != size:
                        return None
                elif size < 2 or env.setdefault(str(wanted), size) != size:
                    return None
    return [env[name] for name in variant.dims]


def _merged(old: Any, new: Any, names: dict[tuple[DimLike, int], str]) -> Any:
    """What fits both an earlier leaf and this one."""
    if isinstance(new, Scalar):
        return new if repr(old.value) == repr(new.value) else Scalar(new.kind, None)
    if not isinstance(new, Aval):
        return new
    return Aval(new.dtype, tuple(_merged_size(a, b, names) for a, b in zip(old.shape, new.shape, strict=True)))


def _merged_size(old: DimLike, new: Any, names: dict[tuple[DimLike, int], str]) -> DimLike:
    """Sizes that were equal before and are equal now are one dim."""
    if old == new or new < 2 or (isinstance(old, int) and old < 2):
        return new
    return dims.dim(names.setdefault((old, new), str(old) if not isinstance(old, int) else f"size{len(names)}"))


def _with_names(shape: Shape, names: Any) -> Shape:
    chosen = dict(names) if isinstance(names, Mapping) else dict(enumerate(names))
    return tuple(dims.dim(chosen[k]) if chosen.get(k) else d for k, d in enumerate(shape))
