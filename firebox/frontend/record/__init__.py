"""Records: the state of modules and optimizers in files."""

from firebox.frontend.record.safetensors import load, save

__all__ = ["load", "save"]
