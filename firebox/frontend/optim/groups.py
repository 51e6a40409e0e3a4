"""Groups of parameters in flat storage: what an optimizer updates with a handful of ops, whatever their number."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from firebox import dtypes
from firebox.dialects.nd.aval import Shape
from firebox.errors import UserError
from firebox.frontend import creation
from firebox.frontend.calls import record_call
from firebox.frontend.cells import Cell, Flat, Param
from firebox.frontend.graph import Var
from firebox.frontend.optim.rules import Rule, check
from firebox.frontend.slots import Storage
from firebox.frontend.tensor import Tensor, tensor, wrap

Named = tuple[str, Param]
Places = tuple[tuple[int, Shape], ...]
"""First element and shape of parameters in flat storage."""


class Unit:
    """Parameters of one group that lie in the same flat storage, and their state, laid out in the same way.

    Attributes:
        storage: the storage; it may hold parameters of other units too, which updates leave as they are.
        named: path and parameter, in the order of the storage.
        state: a flat cell for each slot of the rule, in the type that the update computes in.
        device: where all of it lives.
    """

    def __init__(self, storage: Storage, named: Sequence[Named], rule: Rule) -> None:
        self.storage = storage
        self.named = sorted(named, key=lambda pair: pair[1].slot.position)
        self.dtype = named[0][1].dtype
        self.device = named[0][1].device
        self.state = {
            name: Cell(creation.zeros((storage.size,), dtype=self.dtype.compute, device=self.device), name=name)
            for name in rule.state_names
        }

    def active(self) -> list[Param]:
        """The parameters that have a gradient and take one."""
        return [p for _, p in self.named if p.requires_grad and p.grad is not None]

    def gradient(self, active: Sequence[Param]) -> Tensor:
        """The gradients as one flat array in the computing type; 0 where there is none."""
        grads = [p.grad for p in active if p.grad is not None]
        flat = self.pack(grads, active)
        return flat.detach().astype(self.dtype.compute)

    def pack(self, values: Sequence[Tensor], params: Sequence[Param]) -> Tensor:
        """Values laid out like the parameters; gaps are 0."""
        offsets = tuple(self.storage.offsets[p.slot.position] for p in params)
        return values[0].one("pack", *values, offsets=offsets, size=self.storage.size)

    def part(self, flat: Tensor, param: Param) -> Tensor:
        """The place of a parameter in an array laid out like the parameters."""
        return flat.one("view", flat, offset=(self.storage.offsets[param.slot.position],), shape=param.shape)

    def update(self, rule: Rule, active: Sequence[Param], grad: Tensor, lr: Tensor, step: Tensor) -> None:
        """One step of the active parameters, one node; all others keep their value and their state."""
        lr, step = lr.to(self.device), step.to(self.device)  # a group may lie on several devices
        old = self.storage.read()
        operands = [old, grad._var, lr._var, step._var, *[cell._var for cell in self.state.values()]]
        chosen = self._places(active) if len(active) < len(self.storage.slots) else ()

        def updated(places: Sequence[Var]) -> list[Var]:
            value, *rest = map(wrap, places)
            return self._updated(rule, chosen, value, *rest)

        value, *new = record_call((Unit, rule, self.dtype, chosen), updated, operands, old.device)
        self.storage.write(value)
        for cell, array in zip(self.state.values(), new, strict=True):
            cell.slot.set(array)

    def _updated(
        self, rule: Rule, chosen: Places, old: Tensor, grad: Tensor, lr: Tensor, step: Tensor, *arrays: Tensor
    ) -> list[Var]:
        """The new parameters and the new state; where not all are ``chosen``, the others as they were."""
        compute = self.dtype.compute
        state = dict(zip(self.state, arrays, strict=True))
        value, new = rule.update(old.astype(compute), grad, state, lr.astype(compute), step.astype(compute))
        value = value.astype(self.dtype)
        new = {name: new.get(name, array) for name, array in state.items()}
        if chosen:
            mask = self._mask(chosen, old)
            value = mask.where(value, old)
            new = {name: mask.where(array, state[name]) for name, array in new.items()}
        return [value._var, *[array._var for array in new.values()]]

    def _places(self, params: Sequence[Param]) -> Places:
        storage = self.storage
        positions = [p.slot.position for p in params]
        return tuple([(storage.offsets[k], storage.avals[k].shape) for k in positions])

    def _mask(self, chosen: Places, like: Tensor) -> Tensor:
        """Bools laid out like the parameters: true in the chosen places."""
        true = like.literal(True, dtypes.bool_)
        parts = [true.broadcast_to(shape) for _, shape in chosen]
        return like.one("pack", *parts, offsets=tuple([offset for offset, _ in chosen]), size=self.storage.size)


class Group:
    """Parameters that share a rule and a learning rate.

    Attributes:
        rule: how they are updated.
        lr, step: cells, so that a new learning rate or another step is no new program.
    """

    def __init__(self, named: Sequence[Named], rule: Rule, lr: float) -> None:
        self.named = list(named)
        self.rule = rule
        self.units = [Unit(storage, pairs, rule) for storage, pairs in by_storage(self.named)]
        wide = any(p.dtype is dtypes.f64 for _, p in self.named)
        self.dtype = dtypes.f64 if wide else dtypes.f32
        self.device = self.named[0][1].device
        self.step = Cell(self.scalar(0.0), name="step")
        self._lr = lr
        self.lr_cell = Cell(self.scalar(lr), name="lr")

    def scalar(self, value: float) -> Tensor:
        """A number in memory, in the type of this group's numbers."""
        return tensor(np.asarray(value, self.dtype.numpy), device=self.device)

    @property
    def lr(self) -> float:
        """The learning rate. Setting it writes one number and recompiles nothing."""
        return self._lr

    @lr.setter
    def lr(self, value: float) -> None:
        if value != self._lr:
            self._lr = float(value)
            self.lr_cell.value = self.scalar(self._lr)


def by_storage(named: Sequence[Named]) -> list[tuple[Storage, list[Named]]]:
    """Parameters by flat storage: the one that they lie in already, else a new one for each type and device."""
    fresh: dict[tuple[str, str], list[Named]] = {}
    for path, param in named:
        if param.slot.storage is None:
            fresh.setdefault((param.dtype.name, param.device.name), []).append((path, param))
    for pairs in fresh.values():
        Flat([param for _, param in pairs])
    found: dict[int, tuple[Storage, list[Named]]] = {}
    for path, param in named:
        storage = param.slot.storage
        assert storage is not None
        found.setdefault(id(storage), (storage, []))[1].append((path, param))
    return list(found.values())


# ---- what users pass ---------------------------------------------------------------------------------------------


def make_groups(params: Any, rule: Rule, lr: float) -> list[Group]:
    """Groups from a module, parameters, (path, parameter) pairs, or dicts with ``params`` and settings of their own.

    Raises:
        UserError: no parameters, something that is none, a parameter in two groups, or an unknown setting.
    """
    specs = _specs(params)
    seen: dict[int, str] = {}
    groups = []
    for position, spec in enumerate(specs):
        named = named_params(spec["params"], len(seen))
        for path, param in named:
            if id(param) in seen:
                raise UserError("a parameter is in two groups", op="optimizer", found=path)
            seen[id(param)] = path
        settings = {key: value for key, value in spec.items() if key != "params"}
        own_lr = settings.pop("lr", lr)
        check("lr", own_lr)
        if not named:
            raise UserError("a group without parameters", op="optimizer", found=f"group {position}")
        groups.append(Group(named, _with_settings(rule, settings), float(own_lr)))
    return groups


def _specs(params: Any) -> list[Mapping[str, Any]]:
    if hasattr(params, "named_parameters") or isinstance(params, Param):
        return [{"params": params}]
    if not isinstance(params, Iterable):
        expected = "a module, or a list of parameters or of groups"
        raise UserError("nothing to optimise", op="optimizer", expected=expected, found=repr(params)[:80])
    items = list(params)
    if items and all(isinstance(item, Mapping) for item in items):
        return items
    return [{"params": items}]


def named_params(params: Any, start: int = 0) -> list[Named]:
    """(path, parameter) pairs, each parameter once; without a path its number is its name."""
    if hasattr(params, "named_parameters"):
        params = params.named_parameters()
    elif isinstance(params, Param):
        params = [params]
    found: dict[int, Named] = {}
    for item in _pairs(params, start):
        found.setdefault(id(item[1]), item)
    return list(found.values())


def _pairs(params: Iterable[Any], start: int) -> Iterable[Named]:
    for position, item in enumerate(params):
        path, param = item if isinstance(item, tuple) and len(item) == 2 else (str(start + position), item)
        if not isinstance(param, Param):
            hint = "pass model.parameters(), or values made by fb.nn.Param"
            raise UserError("not a parameter", op="optimizer", found=type(param).__name__, hint=hint)
        if not param.dtype.is_float:
            raise UserError("only floats are trained", op="optimizer", found=f"{path}: {param.dtype.name}")
        yield str(path), param


def _with_settings(rule: Rule, settings: Mapping[str, Any]) -> Rule:
    known = [field.name for field in fields(rule)]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise UserError("no such setting", op="optimizer", expected=", ".join(["lr", *known]), found=", ".join(unknown))
    return replace(rule, **settings)
