"""What the pages show is imported as a reader would: with the folder of the examples on the path."""

import sys
from pathlib import Path

EXAMPLES = str(Path(__file__).parents[2] / "examples")

if EXAMPLES not in sys.path:
    sys.path.insert(0, EXAMPLES)
