"""``firebox devices``: the devices of this machine and what code for them may use."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from firebox.frontend.cli.main import OK
from firebox.runtime.describe import describe, facts
from firebox.runtime.device import Device, devices
from firebox.runtime.pool import get_num_threads


def main(argv: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser("firebox devices", description="List the devices of this machine.")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    args = parser.parse_args(argv)
    if args.json:
        print(json.dumps({"devices": [_row(device) for device in devices()], "threads": get_num_threads()}, indent=2))
        return OK
    for device in devices():
        print(f"{device.name}: {describe(device.backend)}")
        print(f"  features: {' '.join(device.target.features)}")
    return OK


def _row(device: Device) -> dict[str, Any]:
    found = facts(device.backend)
    return {
        "name": device.name,
        "platform": found.platform,
        "product": found.product,
        "memory_bytes": found.memory,
        "target": device.target.to_dict(),
    }
