"""Moving averages of parameters (Polyak, Juditsky 1992), kept flat like the parameters themselves."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from firebox.dtypes import bool_
from firebox.errors import InputError, UserError
from firebox.frontend.cells import Cell
from firebox.frontend.nn.state import like, listed
from firebox.frontend.optim.groups import Named, by_storage, named_params
from firebox.frontend.slots import Storage
from firebox.frontend.tensor import Tensor, wrap


class ExponentialAverage:
    """average = decay * average + (1 - decay) * value, starting from the values at construction.

    Call `update` after ``optimizer.step()``; the work is done along with the next step. `applied` puts the averages in
    place of the parameters for a while::

        with average.applied():
            evaluate(model)

    Args:
        params: a module, parameters, or (path, parameter) pairs.
        decay: in [0, 1).

    Raises:
        UserError: no parameters, or a bad decay.
    """

    def __init__(self, params: Any, decay: float = 0.999) -> None:
        if not 0.0 <= decay < 1.0:
            raise UserError("bad decay", op="ExponentialAverage", expected="0 <= decay < 1", found=decay)
        named = named_params(params)
        if not named:
            raise UserError("no parameters", op="ExponentialAverage")
        self.decay = decay
        self._parts = [_Part(storage, pairs) for storage, pairs in by_storage(named)]

    def update(self) -> None:
        """Take in the present values."""
        for part in self._parts:
            part.update(self.decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The averages in place of the parameters; afterwards the parameters again, whatever was written to them."""
        kept = [wrap(part.storage.read()) for part in self._parts]
        for part in self._parts:
            part.storage.write(part.mixed()._var)
        try:
            yield
        finally:
            for part, value in zip(self._parts, kept, strict=True):
                part.storage.write(value._var)

    def state_dict(self) -> dict[str, Tensor]:
        """The averages by path."""
        return {path: part.view(path) for part in self._parts for path in part.offsets}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave, from tensors or NumPy arrays.

        Raises:
            InputError: entries are missing.
        """
        missing = [path for part in self._parts for path in part.offsets if path not in state]
        if missing:
            raise InputError("averages are missing; nothing was loaded", op="load_state_dict", found=listed(missing))
        for part in self._parts:
            part.load(state)


class _Part:
    """The averages of the parameters in one flat storage, in their computing type."""

    def __init__(self, storage: Storage, named: list[Named]) -> None:
        self.storage = storage
        self.dtype = named[0][1].dtype
        self.offsets = {path: storage.offsets[param.slot.position] for path, param in named}
        self.shapes = {path: param.shape for path, param in named}
        self.average = Cell(wrap(storage.read()).astype(self.dtype.compute), name="average")

    def update(self, decay: float) -> None:
        old = self.average.value
        self.average.value = old + (wrap(self.storage.read()).astype(old.dtype) - old) * (1.0 - decay)

    def mixed(self) -> Tensor:
        """The averages in the parameters' type, the present values where the storage holds other parameters."""
        value = self.average.value.astype(self.dtype)
        if len(self.offsets) == len(self.storage.slots):
            return value
        true = value.literal(True, bool_).broadcast_to
        masks = [true(shape) for shape in self.shapes.values()]
        mine = masks[0].one("pack", *masks, offsets=tuple(self.offsets.values()), size=self.storage.size)
        return mine.where(value, wrap(self.storage.read()))

    def view(self, path: str) -> Tensor:
        flat = self.average.value
        return flat.one("view", flat, offset=(self.offsets[path],), shape=self.shapes[path])

    def load(self, state: Mapping[str, Any]) -> None:
        values = [like(self.average, state[path]).reshape(self.shapes[path]) for path in self.offsets]
        self.average.value = values[0].one(
            "pack", *values, offsets=tuple(self.offsets.values()), size=self.storage.size
        )
