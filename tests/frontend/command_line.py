"""What runs a command line in a test."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
IR = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nd.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = nd.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nd.mul %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
"""


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)
