"""Single steps of recurrences; ``gates`` is what the input adds to each gate, (batch, gates * hidden)."""

from firebox.frontend.functions.activations import relu
from firebox.frontend.functions.linear_algebra import linear
from firebox.frontend.functions.shape import chunk
from firebox.frontend.functions.support import A

NONLINEARITIES = ("tanh", "relu")


def rnn_step(gates: A, hidden: A, weight: A, bias: A | None, nonlinearity: str) -> A:
    """tanh or relu of the gates and the recurrent part."""
    total = gates + linear(hidden, weight, bias)
    return total.tanh() if nonlinearity == "tanh" else relu(total)


def lstm_step(gates: A, hidden: A, cell: A, weight: A, bias: A | None) -> tuple[A, A]:
    """c' = f c + i g and h' = o tanh(c') with the gates i, f, g, o in this order: (h', c')."""
    enter, forget, new, leave = chunk(gates + linear(hidden, weight, bias), 4, 1)
    kept = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * kept.tanh(), kept


def gru_step(gates: A, hidden: A, weight: A, bias: A | None) -> A:
    """h' = (1 - z) n + z h with the gates r, z and n = tanh(x part + r * h part)."""
    reset_x, update_x, new_x = chunk(gates, 3, 1)
    reset_h, update_h, new_h = chunk(linear(hidden, weight, bias), 3, 1)
    reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
    new = (new_x + reset * new_h).tanh()
    return (1.0 - update) * new + update * hidden
