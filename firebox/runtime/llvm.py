"""LLVM IR text to machine code, through llvmlite. No optimisation pipeline: our IR is final as written."""

import functools
import importlib
import re
from types import ModuleType
from typing import Any

from firebox import config
from firebox.errors import CompilerError
from firebox.runtime.target import Target


def compile_to_object(text: str, target: Target) -> bytes:
    """Compile a module to an ELF64 relocatable object.

    Raises:
        CompilerError: LLVM refuses the text (the message quotes the line), or llvmlite is not installed.
    """
    return bytes(_machine(target).emit_object(_parse(text)))


def compile_to_assembly(text: str, target: Target) -> str:
    """Compile a module to assembly text, for reading. Raises as `compile_to_object`."""
    return str(_machine(target).emit_assembly(_parse(text)))


@functools.cache
def llvm_version() -> str:
    """The code generator's version, part of cache keys. Does not load LLVM."""
    # Loaded late: it takes 25 ms, and a program that comes with its code never needs it.
    metadata = importlib.import_module("importlib.metadata")
    try:
        return f"llvmlite {metadata.version('llvmlite')}"
    except metadata.PackageNotFoundError:
        return "no llvmlite"


@functools.cache
def _binding() -> ModuleType:
    # Loaded late: it takes 150 ms, and a program whose code is cached never needs it.
    try:
        binding = importlib.import_module("llvmlite.binding")
    except ImportError:
        raise CompilerError(
            "llvmlite is not installed, so nothing can be compiled", hint="pip install llvmlite"
        ) from None
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    binding.initialize_native_asmparser()  # for inline assembly; without it LLVM ends the process
    # The pre-register-allocation scheduler undoes the order our kernels are written in, and spills.
    binding.set_option("firebox", "-enable-misched=false")
    return binding


@functools.lru_cache(maxsize=8)
def _machine(target: Target) -> Any:
    triple = _binding().Target.from_triple(target.triple)
    return triple.create_target_machine(
        cpu=target.cpu, features=target.feature_string, opt=2, reloc="pic", codemodel="small"
    )


def _parse(text: str) -> Any:
    binding = _binding()
    try:
        # A context of its own: the global one would keep every type and constant for ever.
        module = binding.parse_assembly(text, binding.create_context())
        if config.verify():
            module.verify()
    except RuntimeError as error:
        raise _explain(text, str(error)) from None
    return module


def _explain(text: str, message: str) -> CompilerError:
    place = re.search(r":(\d+):(\d+): error: (.*)", message)
    if place is None:
        return CompilerError(f"LLVM refuses the module: {message.strip()}", op="llvm")
    number = int(place[1])
    lines = text.splitlines()
    line = lines[number - 1].strip() if number <= len(lines) else ""
    return CompilerError(f"LLVM IR line {number}, column {place[2]}: {place[3]}", op="llvm", found=line)
