"""``firebox devices``: the devices of this machine and what code for them may use."""

import argparse
import json
from collections.abc import Sequence

from firebox.frontend.cli.main import OK
from firebox.runtime.device import devices
from firebox.runtime.pool import get_num_threads


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser("firebox devices", description="List the devices of this machine.")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    args = parser.parse_args(argv)
    if args.json:
        rows = [{"name": device.name, "target": device.target.to_dict()} for device in devices()]
        print(json.dumps({"devices": rows, "threads": get_num_threads()}, indent=2))
        return OK
    for device in devices():
        target = device.target
        print(
            f"{device.name}: {target.arch} {target.cpu}, {get_num_threads()} threads, {target.vector_bits}-bit vectors"
        )
        print(f"  features: {' '.join(target.features)}")
    return OK
