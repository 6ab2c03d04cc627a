"""Runs packed networks with one-bit weights on CPUs.

net = adaste_runtime.load("model.safetensors", threads=2)  # or load_bytes(content)
logits = net(images)
"""

from adaste_runtime.network import Network, load, load_bytes, zoo

__all__ = ["Network", "__version__", "load", "load_bytes", "zoo"]

__version__ = "0.1.0"
