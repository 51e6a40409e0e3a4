"""From training to a file that runs without the compiler: what `make demo` does, step by step.

    python examples/demo.py --out out

1. trains the network of digits.py,
2. compiles it with ``firebox compile`` into one file, digits.fbox, for any batch from 1 to 4096,
3. runs that file in a process of its own with ``firebox run``, which loads the runtime alone,
4. checks that the file gets the same images right and wrong as the network in Python.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import digits
import numpy as np

EXAMPLES = Path(__file__).resolve().parent
INPUT = "x: f32[b, 1, 8, 8], 1<=b<=4096"


def firebox(arguments: Sequence[str]) -> None:
    """Run the command line tool in a process of its own, and show how it was called."""
    shown = " ".join(f'"{a}"' if " " in a else a for a in arguments)
    print(f"$ firebox {shown}", flush=True)
    subprocess.run([sys.executable, "-m", "firebox", *arguments], check=True)


def compile_model(out: Path) -> Path:
    """The trained model as one file."""
    artifact = out / "digits.fbox"
    source, weights = f"{EXAMPLES / 'digits.py'}:model", out / "digits.safetensors"
    firebox(["compile", source, "--weights", str(weights), "--input", INPUT, "-o", str(artifact)])
    return artifact


def run_artifact(artifact: Path, out: Path) -> None:
    """The held-out images through the file; its scores are written to artifact_logits.npy."""
    firebox(["run", str(artifact), "--input", f"x=@{out / 'images.npy'}", "--output", str(out / "artifact_logits.npy")])


def check(out: Path) -> float:
    """The artifact's accuracy.

    Raises:
        SystemExit: it gets other images right or wrong than the network in Python.
    """
    labels, python, artifact = (np.load(out / f"{name}.npy") for name in ("labels", "logits", "artifact_logits"))
    differing = np.flatnonzero((python.argmax(-1) == labels) != (artifact.argmax(-1) == labels))
    if differing.size:
        sys.exit(f"the artifact and Python disagree on images {differing.tolist()}")
    return digits.accuracy(artifact, labels)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train, compile, and run the compiled file in another process.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory for what is written")
    parser.add_argument("--epochs", type=int, default=digits.EPOCHS)
    args = parser.parse_args()

    python = digits.run(args.out, args.epochs)
    artifact = compile_model(args.out)
    run_artifact(artifact, args.out)
    found = check(args.out)
    print(f"python accuracy: {python:.4f}")
    print(f"artifact accuracy: {found:.4f}")
    print("the same images are right and wrong in both")
    print(f"next: firebox inspect {artifact}; the model and its training are in {EXAMPLES / 'digits.py'}")


if __name__ == "__main__":
    main()
