"""Contractions of bf16 on the CPU: in tile registers, by products of pairs, and widened where there is neither."""

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firebox.dialects.nd import arrays as fn
from firebox.dialects.nd.ops.contract import contract
from firebox.dialects.nd.schedule import Schedule
from firebox.lowering.pipeline import lower, run_to
from firebox.runtime.llvm import compile_to_assembly
from firebox.runtime.target import Target
from tests.lowering.generate.contractions import check, groups, of, scheduled, shapes, values
from tests.programs import check_native, program, run_native
