"""Twenty training steps in float64 end at the parameters at which PyTorch 2.13 ends, from the same weights and data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import firebox as fb
from firebox import nn, optim

STEPS = 20

OPTIMIZERS: dict[str, Callable[[nn.Module], optim.Optimizer]] = {
    "SGD": lambda m: optim.SGD(m, lr=0.05),
    "SGD momentum": lambda m: optim.SGD(m, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "SGD Nesterov": lambda m: optim.SGD(m, lr=0.05, momentum=0.9, nesterov=True),
    "Adam": lambda m: optim.Adam(m, lr=0.02, weight_decay=0.01),
    "AdamW": lambda m: optim.AdamW(m, lr=0.02, weight_decay=0.1),
    "RMSprop": lambda m: optim.RMSprop(m, lr=0.01, momentum=0.5, centered=True),
}

# What PyTorch's optimizers of the same names and settings give: all parameters, in the order of the model.
FOUND_BY_PYTORCH = {
    "SGD": """
        0.997950314293 -0.229030393588 -0.938931703813 0.437372675163 0.805776292534 -0.645012353016
        -0.647483510667 0.856250931794 0.426837074073 -0.943481819764 -0.161204397901 0.985022418016
        0.971195703221 -0.386869446018 -0.862919544695 0.587897760145 0.801884250980 -0.448273671727
        -0.698476773062 0.645772733830 0.837998904589 -0.778966178882 -0.625160186645 0.922553786187
        0.671080460008 -0.254865570605
    """,
    "SGD momentum": """
        0.905611755294 -0.191386425200 -0.856293580954 0.313743824372 0.764592296274 -0.510770839883
        -0.609710493955 0.842822674282 0.392524371458 -0.853271839012 -0.095258985029 0.877819030518
        0.983482153164 -0.509292477261 -0.735293837349 0.661707347879 0.545560190195 -0.555145453657
        -0.471641498340 0.663467388480 1.005608933158 -0.605703449966 -0.780389645131 0.820016154190
        0.158443431226 0.235255158170
    """,
    "SGD Nesterov": """
        0.946129229819 -0.192022119370 -0.896647244091 0.330217924083 0.809039062634 -0.538698381864
        -0.638189218887 0.881286158000 0.411091480172 -0.905628319896 -0.100929089162 0.931636634802
        1.064703876415 -0.535931646037 -0.799675609963 0.690968192692 0.624964732120 -0.599120727888
        -0.555308613479 0.682357238822 1.014918423448 -0.628119122721 -0.768328346228 0.885969281195
        0.219617139526 0.196597749877
    """,
    "Adam": """
        0.648680929543 -0.124281670895 -0.609832707024 0.139914098396 0.628494566396 -0.327465279941
        -0.635668552724 0.907829881163 0.409258926349 -0.624166603228 0.056754123095 0.661459662406
        0.801477048492 -0.670506087105 -0.617860762382 0.806898812670 0.654547507244 -0.375296040151
        -0.553490879267 0.608579117948 0.969860819679 -0.794121235031 -0.755547134109 0.894350709388
        0.571217442815 -0.156222819785
    """,
    "AdamW": """
        0.911741833205 -0.177325591422 -0.849532844426 0.135861941720 0.720695505151 -0.317275268097
        -0.767066018079 1.023810206104 0.496557067795 -0.636463742830 0.051581461235 0.662376056658
        0.916908340006 -0.657766745422 -0.617685350367 0.810462899346 0.650161498162 -0.387618843270
        -0.542998185008 0.610610360729 0.925357812962 -0.791453017704 -0.728687290786 0.896160844307
        0.544229973779 -0.144351120457
    """,
    "RMSprop": """
        0.565286669065 1.499613403941 -1.408805939920 0.189657811210 0.679978476954 -0.471147234890
        -1.098809566990 0.526579480442 1.055799038137 -0.648461261997 -0.168463054560 0.850936270383
        0.099073035445 -0.933192451772 -0.493598438444 0.695317208083 0.437957262732 -0.327291542414
        -0.766000377438 0.512053476977 1.201925892837 -0.899948308194 -0.557636582269 1.056273043040
        0.456945514491 -0.040730625088
    """,
}


class Model(nn.Module):
    """Two layers with tanh between them, in float64."""

    def __init__(self) -> None:
        self.first = nn.Linear(3, 4, dtype=fb.float64)
        self.second = nn.Linear(4, 2, dtype=fb.float64)
        for k, cell in enumerate(self.parameters()):
            cell.value = fb.tensor(waves(*cell.value.numpy().shape, phase=0.1 * (k + 1)))

    def forward(self, x: fb.Tensor) -> fb.Tensor:
        found: fb.Tensor = self.second(fb.tanh(self.first(x)))
        return found


def waves(*shape: int, phase: float) -> npt.NDArray[Any]:
    """Numbers that every language computes alike."""
    found: npt.NDArray[Any] = np.cos(np.arange(np.prod(shape)) * 1.7 + phase).reshape(shape)
    return found


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_twenty_steps_as_in_pytorch(name: str, jitted: bool) -> None:
    model = Model()
    optimizer = OPTIMIZERS[name](model)

    def step(x: fb.Tensor, y: fb.Tensor) -> None:
        fb.cross_entropy(model(x), y).backward()
        optimizer.step()

    run = fb.jit(step) if jitted else step
    for k in range(STEPS):
        run(fb.tensor(waves(5, 3, phase=k)), fb.tensor((np.arange(5) + k) % 2))
    found = np.concatenate([cell.value.numpy().ravel() for cell in model.parameters()])
    expected = np.array(FOUND_BY_PYTORCH[name].split(), np.float64)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-11)
