"""Recurrent layers: `RNN`, `LSTM`, `GRU`, of several layers and both directions; and their cells.

A layer is one loop (`fb.scan`), so what is compiled does not grow with the sequence, and its length may be symbolic.
Parameters have PyTorch's names and layout: ``weight_ih_l0`` (gates * hidden, input), ``weight_hh_l0``, ``bias_ih_l0``,
``bias_hh_l0``, .. with ``_reverse`` for the other direction.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from firebox.errors import ShapeError, UserError
from firebox.frontend.cells import Param
from firebox.frontend.control import scan
from firebox.frontend.functions import recurrent as F
from firebox.frontend.functions.dropout import check_probability, dropout
from firebox.frontend.functions.linear_algebra import linear
from firebox.frontend.functions.shape import concat, narrow, stack
from firebox.frontend.nn import init
from firebox.frontend.nn.module import Module, value_of
from firebox.frontend.tensor import Tensor

State = tuple[Tensor, ...]


class _Recurrent(Module):
    """A stack of recurrences over (batch, length, input), or (length, batch, input) without ``batch_first``.

    Args:
        num_layers: each reads the outputs of the one before.
        dropout: probability with which outputs of all layers but the last are dropped in training.
        bidirectional: a second recurrence runs from the end; its outputs stand behind those of the first.
    """

    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: object = None,
        device: object = None,
    ) -> None:
        check_probability(type(self).__name__, dropout)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.batch_first = batch_first
        self.dropout = dropout
        self.directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * len(self.directions)
            for direction in self.directions:
                self._make(f"l{layer}{direction}", width, bias, dtype, device)

    def _make(self, name: str, width: int, bias: bool, dtype: object, device: object) -> None:
        """The parameters of one layer in one direction, uniform in +-1/sqrt(hidden)."""
        rows = self.gates * self.hidden_size
        for kind, shape in (("ih", (rows, width)), ("hh", (rows, self.hidden_size))):
            setattr(self, f"weight_{kind}_{name}", Param(init.fan_uniform(shape, self.hidden_size, dtype, device)))
        for kind in ("ih", "hh"):
            value = Param(init.fan_uniform((rows,), self.hidden_size, dtype, device)) if bias else None
            setattr(self, f"bias_{kind}_{name}", value)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Outputs of the last layer at every step, and the last state of each layer and direction.

        ``state``: (layers * directions, batch, hidden), for an LSTM a pair of them; zeros by default.
        """
        name = type(self).__name__
        if x.rank != 3 or x.shape[2] != self.input_size:
            expected = f"rank 3 with {self.input_size} in the last dim"
            raise ShapeError("the input does not fit", op=name, expected=expected, found=x.shape)
        x = x.swapaxes(0, 1) if self.batch_first else x
        if x.shape[0] == 0:
            raise ShapeError("the sequence is empty", op=name, expected="at least one step", found=x.shape)
        given = self._given(x, state)
        last: list[State] = []
        for layer in range(self.num_layers):
            x = dropout(x, self.dropout, self.training and layer > 0)
            outputs = []
            for direction in self.directions:
                found, final = self._run(x, f"l{layer}{direction}", given[len(last)], bool(direction))
                outputs.append(found)
                last.append(final)
            x = concat(outputs, 2)
        final_states = tuple(stack([state[k] for state in last], 0) for k in range(self.states))
        result = x.swapaxes(0, 1) if self.batch_first else x
        return result, final_states if self.states > 1 else final_states[0]

    def _given(self, x: Tensor, state: Any) -> list[State]:
        """The first state of each layer and direction."""
        count = self.num_layers * len(self.directions)
        shape = (count, x.shape[1], self.hidden_size)
        parts = state if isinstance(state, Sequence) else [state] * (1 if state is not None else 0)
        if state is None:
            parts = [x.literal(0).broadcast_to(shape)] * self.states
        if len(parts) != self.states or any(p.shape != shape for p in parts):
            expected = f"{self.states} of {shape}"
            found = [getattr(p, "shape", p) for p in parts]
            raise ShapeError("the state does not fit", op=type(self).__name__, expected=expected, found=found)
        return [tuple(narrow(p, 0, k, k + 1).squeeze(0) for p in parts) for k in range(count)]

    def _run(self, x: Tensor, name: str, state: State, reverse: bool) -> tuple[Tensor, State]:
        """One layer in one direction: its outputs at every step, and its last state."""
        weight_ih, weight_hh, bias_ih, bias_hh = (
            value_of(getattr(self, f"{kind}_{name}")) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        assert weight_ih is not None and weight_hh is not None

        def step(state: State, gates: Tensor) -> tuple[State, Tensor]:
            state = self._step(gates, state, weight_hh, bias_hh)
            return state, state[0]

        last, outputs = scan(step, state, linear(x, weight_ih, bias_ih), reverse=reverse)
        return outputs, last

    def _step(self, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        """The state after a step, whose first part is the output; ``gates`` is what the input adds to them."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}"
        return f"{text}, bidirectional=True" if len(self.directions) > 1 else text


class RNN(_Recurrent):
    """h' = tanh(W x + b + U h + c), or with relu."""

    gates = 1

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        super().__init__(*args, **options)
        self.nonlinearity = _checked("RNN", nonlinearity)

    def _step(self, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        return (F.rnn_step(gates, state[0], weight, bias, self.nonlinearity),)


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter, Schmidhuber 1997) with gates input, forget, cell, output in this order."""

    gates = 4
    states = 2

    def _step(self, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        return F.lstm_step(gates, state[0], state[1], weight, bias)


class GRU(_Recurrent):
    """Gated recurrent unit (Cho et al. 2014) with gates reset, update, new; the reset gate acts after the product."""

    gates = 3

    def _step(self, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None) -> State:
        return (F.gru_step(gates, state[0], weight, bias),)


class _Cell(Module):
    """One step of a recurrence over (batch, input)."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: object = None, device: object = None
    ) -> None:
        self.input_size = input_size
        self.hidden_size = hidden_size
        rows = self.gates * hidden_size
        self.weight_ih = Param(init.fan_uniform((rows, input_size), hidden_size, dtype, device))
        self.weight_hh = Param(init.fan_uniform((rows, hidden_size), hidden_size, dtype, device))
        self.bias_ih = Param(init.fan_uniform((rows,), hidden_size, dtype, device)) if bias else None
        self.bias_hh = Param(init.fan_uniform((rows,), hidden_size, dtype, device)) if bias else None

    def forward(self, x: Tensor, state: Any = None) -> Any:
        """The state after the step; without one before it starts from zeros."""
        if x.rank != 2 or x.shape[1] != self.input_size:
            expected = f"(batch, {self.input_size})"
            raise ShapeError("the input does not fit", op=type(self).__name__, expected=expected, found=x.shape)
        if state is None:
            zeros = x.literal(0).broadcast_to((x.shape[0], self.hidden_size))
            state = zeros if self.states == 1 else (zeros,) * self.states
        gates = linear(x, self.weight_ih.value, value_of(self.bias_ih))
        return self._step(gates, state, self.weight_hh.value, value_of(self.bias_hh))

    def _step(self, gates: Tensor, state: Any, weight: Tensor, bias: Tensor | None) -> Any:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(_Cell):
    """One step of an `RNN`."""

    gates = 1

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        super().__init__(*args, **options)
        self.nonlinearity = _checked("RNNCell", nonlinearity)

    def _step(self, gates: Tensor, state: Any, weight: Tensor, bias: Tensor | None) -> Any:
        return F.rnn_step(gates, state, weight, bias, self.nonlinearity)


class LSTMCell(_Cell):
    """One step of an `LSTM`; the state is (output, cell)."""

    gates = 4
    states = 2

    def _step(self, gates: Tensor, state: Any, weight: Tensor, bias: Tensor | None) -> Any:
        return F.lstm_step(gates, state[0], state[1], weight, bias)


class GRUCell(_Cell):
    """One step of a `GRU`."""

    gates = 3

    def _step(self, gates: Tensor, state: Any, weight: Tensor, bias: Tensor | None) -> Any:
        return F.gru_step(gates, state, weight, bias)


def _checked(op: str, nonlinearity: str) -> str:
    if nonlinearity not in F.NONLINEARITIES:
        expected = " or ".join(map(repr, F.NONLINEARITIES))
        raise UserError("no such nonlinearity", op=op, expected=expected, found=repr(nonlinearity))
    return nonlinearity
