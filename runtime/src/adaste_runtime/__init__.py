"""Runs packed networks with one-bit weights on CPUs.

net = adaste_runtime.load("model.safetensors", threads=2)
logits = net(images)
"""

from adaste_runtime.network import Network, load

__all__ = ["Network", "__version__", "load"]

__version__ = "0.1.0"
