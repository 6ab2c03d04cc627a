"""The one-bit file: networks with binary weights as data that other programs can read; and as ONNX."""

from adaste.packed.pack import pack
from adaste.packed.state import load_into, save_packed
from adaste.packed.torch_module import PackedNetwork, load_packed

__all__ = ["PackedNetwork", "load_into", "load_packed", "pack", "save_packed"]
