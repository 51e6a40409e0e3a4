"""`jit`: a function traced once for each kind of arguments and run as one compiled program."""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from firebox.dialects.nd.aval import Aval
from firebox.dims import DimLike
from firebox.errors import FireboxError, UserError
from firebox.frontend import tree
from firebox.frontend.devices import current_device
from firebox.frontend.graph import Var
from firebox.frontend.inspection import Lowered
from firebox.frontend.jit_arguments import (
    Static,
    is_input,
    kind_of,
    leaf_of,
    merge,
    number_buffer,
    type_of,
    unify,
    with_names,
)
from firebox.frontend.jit_program import MissError, Prepared, Variant
from firebox.frontend.jit_trace import trace_function
from firebox.frontend.tensor import Tensor
from firebox.frontend.trace import STATE, mixed_devices
from firebox.frontend.traced import check_callable
from firebox.frontend.tree import TreeDef
from firebox.lowering.options import Options
from firebox.runtime.device import Device

MAX_VARIANTS = 8
"""Programs kept for one kind of arguments that differ in sizes or numbers."""
_MAX_PREPARED = 1024


class Jitted:
    """A compiled function; see `jit`."""

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (),
        dim_names: Mapping[str, Any] | None = None,
        options: Options | None = None,
    ) -> None:
        self.function = function
        self.static_argnums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        self.static_argnames = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self.dim_names = dict(dim_names or {})
        self.options = options or Options()
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
            function = functools.partial(self.function, owner)
            bound = Jitted(function, shifted, self.static_argnames, self.dim_names, self.options)
            vars(owner)[name] = bound
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> "Jitted | None":
        return None if isinstance(self.function, functools.partial) else self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and STATE.trace is None:
            try:
                arguments = [a._var for a in args]
            except AttributeError:
                return self._search(args, kwargs)
            prepared = self._prepared.get((STATE.grad, *[id(v.aval) for v in arguments]))
            if prepared is not None:
                try:
                    return prepared.call(arguments, ())
                except MissError:
                    pass
        return self._search(args, kwargs)

    # ---- finding a variant ---------------------------------------------------------------------------------------

    def _search(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if STATE.trace is not None:  # part of a larger function
            return self.function(*args, **kwargs)
        leaves, structure = self._flatten(args, kwargs)
        tensors = [v._var for v in leaves if isinstance(v, Tensor)]
        device = _device_of(tensors)
        tracked = tuple(isinstance(v, Tensor) and v._var.tracked and STATE.grad for v in leaves)
        group = (structure, tuple(map(kind_of, leaves)), STATE.grad, device, tracked)
        prepared = self._match(group, leaves) or self._make(group, leaves, structure, device, tracked)
        numbers = [v for v, known in zip(leaves, prepared.variant.leaves, strict=True) if is_input(known)]
        plain = all(type(v) is Tensor for v in args) and not kwargs and not any(tracked)
        if plain and len(self._prepared) < _MAX_PREPARED:
            self._prepared[(STATE.grad, *[id(v.aval) for v in tensors])] = prepared
        return prepared.call(tensors, [number_buffer(v, device) for v in numbers])

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], TreeDef]:
        count = len(args)
        static = {n % count for n in self.static_argnums if -count <= n < count}
        given = tuple(Static(a) if k in static else a for k, a in enumerate(args))
        named = {k: Static(kwargs[k]) if k in self.static_argnames else kwargs[k] for k in sorted(kwargs)}
        leaves, structure = tree.flatten((given, named))
        return [leaf_of(v) for v in leaves], structure

    def _match(self, group: Any, leaves: Sequence[Any]) -> Prepared | None:
        for variant in reversed(self._groups.get(group, ())):
            sizes = unify(variant.leaves, variant.dims, leaves)
            if sizes is not None and variant.accepts(sizes) and variant.holds():
                return Prepared(variant, sizes)
        return None

    def _make(
        self, group: Any, leaves: Sequence[Any], structure: TreeDef, device: Device, tracked: Sequence[bool]
    ) -> Prepared:
        variants = self._groups.setdefault(group, [])
        if len(variants) >= MAX_VARIANTS:
            name = getattr(self.function, "__name__", "function")
            warnings.warn(
                f"jit: {name} has {MAX_VARIANTS} programs for sizes, numbers and states; the oldest is dropped",
                stacklevel=3,
            )
            gone = variants.pop(0)
            self._prepared = {k: p for k, p in self._prepared.items() if p.variant is not gone}
        exact = [type_of(v) for v in leaves]
        known = group in self._fixed or any(tracked) or _is_refused(variants, leaves)
        wanted = exact if known else self._generalised(variants, exact, structure)
        if wanted != exact:
            try:
                variant, sizes = self._add(variants, wanted, leaves, structure, device, tracked)
            except FireboxError:
                variant, sizes = self._add(variants, exact, leaves, structure, device, tracked)
                self._fixed.add(group)
            if variant.accepts(sizes):
                return Prepared(variant, sizes)
        return Prepared(*self._add(variants, exact, leaves, structure, device, tracked))

    def _add(
        self,
        variants: list[Variant],
        wanted: Sequence[Any],
        leaves: Sequence[Any],
        structure: TreeDef,
        device: Device,
        tracked: Sequence[bool],
    ) -> tuple[Variant, list[int]]:
        places = [w.value if isinstance(w, Static) else w for w in wanted]
        traced = trace_function(self.function, structure, places, device, tracked)
        variant = Variant(wanted, traced, device, self.options)
        sizes = unify(variant.leaves, variant.dims, leaves)
        assert sizes is not None
        variants.append(variant)
        return variant, sizes

    def _generalised(self, variants: Sequence[Variant], exact: Sequence[Any], structure: TreeDef) -> list[Any]:
        """What to trace for: sizes that a variant had differently become symbolic, numbers inputs."""
        for variant in reversed(variants):
            names: dict[tuple[DimLike, int], str] = {}
            merged = [merge(old, new, names) for old, new in zip(variant.leaves, exact, strict=True)]
            if merged != exact:
                return merged
        return list(exact) if variants else self._named(exact, structure)

    def _named(self, exact: Sequence[Any], structure: TreeDef) -> list[Any]:
        """The types with the dims that `jit` was told are symbolic."""
        if not self.dim_names:
            return list(exact)
        owners, parameters = self._owners(structure)
        unknown = set(self.dim_names) - set(parameters)
        if unknown:
            raise UserError("dims of an argument that there is not", op="jit", found=", ".join(sorted(unknown)))
        return [self._with_dims(leaf, owner) for leaf, owner in zip(exact, owners, strict=True)]

    def _owners(self, structure: TreeDef) -> tuple[list[str], list[str]]:
        """The name of the argument that each leaf belongs to, and the names of all arguments."""
        positional, named = structure.children
        parameters = [p.name for p in inspect.signature(self.function).parameters.values()]
        names = [*parameters, *(f"arg{k}" for k in range(len(parameters), len(positional.children)))]
        owners = [n for n, c in zip(names, positional.children, strict=False) for _ in range(c.size)]
        owners += [n for n, c in zip(named.keys, named.children, strict=True) for _ in range(c.size)]
        return owners, parameters

    def _with_dims(self, leaf: Any, owner: str) -> Any:
        if not isinstance(leaf, Aval) or owner not in self.dim_names:
            return leaf
        return Aval(leaf.dtype, with_names(leaf.shape, self.dim_names[owner]))

    # ---- inspection ----------------------------------------------------------------------------------------------

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for these arguments (tensors, or `spec`s of tensors), for inspection; nothing is run."""
        leaves, structure = self._flatten(args, kwargs)
        exact = [type_of(v) for v in leaves]
        places = [w.value if isinstance(w, Static) else w for w in exact]
        device = _device_of([v._var for v in leaves if isinstance(v, Tensor)])
        owners, _ = self._owners(structure)
        names = [n if owners.count(n) == 1 else "" for n, e in zip(owners, exact, strict=True) if isinstance(e, Aval)]
        return Lowered(trace_function(self.function, structure, places, device), device, names, self.options)


def _is_refused(variants: Sequence[Variant], leaves: Sequence[Any]) -> bool:
    """Whether a program would fit, but one of its ops would leave its operands with these sizes."""
    found = [(variant, unify(variant.leaves, variant.dims, leaves)) for variant in variants]
    return any(sizes is not None and not variant.accepts(sizes) for variant, sizes in found)


def _device_of(values: Sequence[Var]) -> Device:
    """The device that the arguments live on.

    Raises:
        DeviceError: they live on several.
    """
    if any(v.device is not values[0].device for v in values):
        raise mixed_devices("jit", [(str(v.aval), v.device) for v in values])
    return values[0].device if values else current_device()


Wrap = Callable[[Callable[..., Any]], Jitted]


@overload
def jit(
    function: None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    dims: Mapping[str, Any] | None = None,
    checkpoint: str | int = "none",
) -> Wrap: ...


@overload
def jit(
    function: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    dims: Mapping[str, Any] | None = None,
    checkpoint: str | int = "none",
) -> Jitted: ...


def jit(
    function: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    dims: Mapping[str, Any] | None = None,
    checkpoint: str | int = "none",
) -> Jitted | Wrap:
    """A function that is traced once and then runs as one compiled program. Also a decorator, also of methods.

    Arguments and results may be nested lists, tuples, dicts and dataclasses of tensors. Cells that the function reads
    and writes are inputs and outputs that it does not show. A value cannot be read inside: there are no numbers yet.

    A second size of an argument makes that dim symbolic (0 and 1 stay as they are), a second value of a Python number
    makes the number an input; a function that needs them while tracing is compiled for each. At most 8 programs are
    kept.

    Args:
        static_argnums, static_argnames: arguments that are no data: any value, compared with ``==``.
        dims: names for sizes that vary, by argument: ``dims={"x": ("b", None)}`` or ``dims={"x": {0: "b"}}``.
        checkpoint: what derivatives inside keep in memory: ``"none"`` computes nothing again; ``"balanced"``, as
            Burn's strategy of the name, whatever is element-wise; ``"budget:64MiB"``, or bytes as an int, as little as
            it takes for the program's arena (what it needs beside arguments and results) to fit.

    Raises:
        UserError: not a budget; at a call, no such strategy, or a budget that is out of reach.
    """
    options = Options(checkpoint=checkpoint)
    if function is None:
        return lambda f: Jitted(f, static_argnums, static_argnames, dims, options)
    check_callable("jit", function)
    return Jitted(function, static_argnums, static_argnames, dims, options)
