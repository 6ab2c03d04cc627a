"""The one-bit file: networks with binary weights as data that other programs can read; and as ONNX."""

from adaste.packed.module import PackedNetwork, load_packed
from adaste.packed.pack import pack

__all__ = ["PackedNetwork", "load_packed", "pack"]
