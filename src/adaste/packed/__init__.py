"""The one-bit file: networks with binary weights as data that other programs can read; and as ONNX."""

from adaste.packed.pack import pack
from adaste.packed.torch_module import PackedNetwork, load_packed

__all__ = ["PackedNetwork", "load_packed", "pack"]
