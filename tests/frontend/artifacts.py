"""A small model in IR for tests of compilation ahead of time."""

import numpy as np

IR = """
builtin.module {
  func.func @main(%x: tensor<?x8xf32, #nd.dims<"b, 8">> {nd.name = "x"}, %w: tensor<8xf32> {nd.name = "w"})
      -> tensor<?x8xf32, #nd.dims<"b, 8">> {
    %0 = nd.add %x, %w : (tensor<?x8xf32, #nd.dims<"b, 8">>, tensor<8xf32>) -> tensor<?x8xf32, #nd.dims<"b, 8">>
    %1 = nd.mul %0, %0 : (tensor<?x8xf32, #nd.dims<"b, 8">>, tensor<?x8xf32, #nd.dims<"b, 8">>)
      -> tensor<?x8xf32, #nd.dims<"b, 8">>
    func.return %1 : tensor<?x8xf32, #nd.dims<"b, 8">>
  }
}
"""


W = np.arange(8, dtype=np.float32)
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
INPUTS = "x: f32[b, 8], 1<=b<=64; w: f32[8]"
MODEL = """
import numpy as np
from firebox.frontend.nn.linear import Linear
from firebox.frontend.nn.module import Module

class Net(Module):
    def __init__(self):
        self.first = Linear(8, 4)

    def forward(self, x):
        return self.first(x) * 2.0

def net():
    made = Net()
    made.load_state_dict({"first.weight": np.ones((4, 8), np.float32), "first.bias": np.zeros(4, np.float32)})
    return made
"""
