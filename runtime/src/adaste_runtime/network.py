"""A packed network: loaded once, run on batches of images.

numpy takes longer to import than a network to load and run; it is imported by the first call that needs it.
"""

from __future__ import annotations

import operator
import os

from adaste_runtime import _runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray


class Network:
    """A packed network. Made by `load` or `load_bytes`.

    Several threads may call it at the same time: they share the weights, and each call has activations of its own. At
    most as many calls run at once as there are threads or processors; others wait. A call releases the GIL.

    It is pickled as the content of its file, which it keeps, with the ranges of its activations: the copy computes the
    same in any process and on any machine, whatever has become of the file. A forked process may use it, unless a
    thread was in a call when it was forked.
    """

    def __init__(self, content: bytes, threads: int, int8: bool) -> None:
        self._network = _runtime.Network(content, threads, int8)
        self._arguments = content, threads, int8

    def __reduce__(self) -> tuple[Any, ...]:
        return Network, self._arguments, self._network.ranges

    def __setstate__(self, ranges: list[tuple[float, float]]) -> None:
        self._network.ranges = ranges

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of its images."""
        return self._network.input_shape

    @property
    def outputs(self) -> int:
        """How many numbers it computes for an image."""
        return self._network.outputs

    @property
    def classes(self) -> list[str] | None:
        """The names of its outputs, where the file has them."""
        return self._network.classes or None

    @property
    def mean(self) -> tuple[float, ...] | None:
        """Per channel, of pixels in 0..1: bytes become (pixel / 255 - mean) / std. None where the file has none."""
        return tuple(self._network.mean) or None

    @property
    def std(self) -> tuple[float, ...] | None:
        """See `mean`; both are there or neither."""
        return tuple(self._network.std) or None

    @property
    def kernels(self) -> dict[str, str]:
        """For every layer with weights the kernel that computes it."""
        return dict(self._network.kernels)

    @property
    def threads(self) -> int:
        """How many threads it runs on."""
        return self._network.threads

    @property
    def memory_bytes(self) -> int:
        """Memory it holds for activations; it grows with the batch, up to a point, and never in a repeated call."""
        return self._network.memory_bytes

    def describe(self) -> dict[str, Any]:
        """What the file says of the network and what runs it, as JSON could hold it.

        Texts are as in the file, which may come from a stranger: escape them before a terminal sees them.
        """
        nodes = [
            {
                "op": op,
                "output": output,
                "shape": list(shape),
                "weights": weights,
                "bits": (1 if binary else 32) if weights else 0,
                "kernel": kernel,
            }
            for op, output, shape, weights, binary, kernel in self._network.nodes
        ]
        return {
            "input_shape": list(self.input_shape),
            "mean": self._network.mean or None,
            "std": self._network.std or None,
            "outputs": self.outputs,
            "classes": self.classes,
            "recipe": self._network.recipe,
            "producer": self._network.producer,
            "binary_weights": sum(node["weights"] for node in nodes if node["bits"] == 1),
            "float_weights": sum(node["weights"] for node in nodes if node["bits"] == 32),
            "nodes": nodes,
        }

    def __call__(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """The outputs (N, classes) for images.

        images: float32 (N, channels, height, width), normalised as in training; or uint8 (N, height, width, channels),
        which are normalised as the file says.
        """
        import numpy as np

        batch = self._checked(images)
        outputs = np.empty((len(batch), self.outputs), np.float32)
        self._network.run(batch, outputs)
        return outputs

    def run(self, images: Any, outputs: Any) -> None:
        """Compute the outputs for images into memory that is there, without numpy.

        images:  of the types and shapes of a call
        outputs: float32 (N, classes)

        Both are anything with the buffer protocol (a memoryview, a numpy array), without gaps.
        """
        batch, target = memoryview(images), memoryview(outputs)
        self._check({"f": "float32", "B": "uint8"}.get(batch.format, batch.format), batch.shape or ())
        wanted = (len(batch), self.outputs)
        if target.format != "f" or target.shape != wanted or target.readonly:
            raise ValueError(f"outputs must be writable float32 {wanted}, got format {target.format!r} {target.shape}")
        if not (batch.c_contiguous and target.c_contiguous):
            raise ValueError("images and outputs must be without gaps, in the order of C")
        self._network.run(batch, target)

    def calibrate(self, images: NDArray[Any]) -> None:
        """Fix the ranges of 8-bit activations to those of typical images; without it each image has its own.

        Images that are all of one colour are refused: they show no ranges.
        """
        batch = self._checked(images)
        _refuse_one_colour(batch)
        self._network.calibrate(batch)

    def _checked(self, images: NDArray[Any]) -> NDArray[Any]:
        import numpy as np

        array = np.asarray(images)
        self._check(str(array.dtype), array.shape)
        return np.ascontiguousarray(array)

    def _check(self, dtype: str, shape: tuple[int, ...]) -> None:
        channels, height, width = self.input_shape
        allowed = {"float32": (channels, height, width), "uint8": (height, width, channels)}
        if dtype not in allowed or len(shape) != 4 or shape[1:] != allowed[dtype]:
            raise ValueError(
                f"images must be float32 (N, {channels}, {height}, {width})"
                f" or uint8 (N, {height}, {width}, {channels}), got {dtype} {shape}"
            )

    def __repr__(self) -> str:
        return f"Network(input_shape={self.input_shape}, outputs={self.outputs}, threads={self.threads})"


def _refuse_one_colour(images: NDArray[Any]) -> None:
    """That there are images, of finite numbers, is seen to by the network itself."""
    import numpy as np

    first = images[:1, :, :1, :1] if images.dtype == np.float32 else images[:1, :1, :1, :]
    if len(images) and np.isfinite(first).all() and np.all(images == first):
        raise ValueError(
            f"images must show the ranges of values, which those of one colour do not: all pixels are {first.ravel()}"
        )


def load(path: str | os.PathLike[str], threads: int | None = None, int8: bool = False) -> Network:
    """The network in a packed file.

    threads: how many share the work of a call, or of all calls at the same time; None: one on each physical core that
             this process may use (by its affinity and the quota of its control group). The outputs do not depend on it.
    int8:    layers with one-bit weights take 8-bit activations: faster on most processors, and no longer exact.

    A file that cannot be used is a ValueError that says why.
    """
    place = path if isinstance(path, (bytes, bytearray, memoryview)) else os.fspath(path)
    if not isinstance(place, str):
        raise ValueError(
            f"path must be text without NUL, got {type(place).__name__}; load_bytes takes the content of a file"
        )
    if "\0" in place:
        raise ValueError(f"path must be text without NUL, got {place!r}")
    count = _checked_threads(threads)
    try:
        return Network(_runtime.read_file(os.fsencode(place)), count, bool(int8))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def load_bytes(content: bytes | bytearray | memoryview, threads: int | None = None, int8: bool = False) -> Network:
    """The network in the content of a packed file, which is not needed afterwards; all else is as for `load`."""
    try:
        # A copy of what could change while it is checked, or after.
        own = content if isinstance(content, bytes) else bytes(memoryview(content))
    except TypeError:
        raise ValueError(f"content must be the bytes of a packed file, got {type(content).__name__}") from None
    return Network(own, _checked_threads(threads), bool(int8))


def zoo(name: str) -> str:
    """The file of a trained network, for `load`: adaste_runtime.load(adaste_runtime.zoo("digits-vgg-small")).

    The networks are in a package of their own, adaste-zoo; an ImportError says so where it is not installed. An unknown
    name is a ValueError that lists the names.
    """
    from importlib import import_module

    try:
        networks = import_module("adaste_zoo")
    except ImportError as error:
        raise ImportError(
            "the networks of the zoo are in a package of their own, adaste-zoo: in a checkout of adaste, "
            f"pip install ./zoo ({error})"
        ) from error
    return str(networks.path(name))


def _checked_threads(threads: int | None) -> int:
    """The number for the library, where 0 stands for None."""
    if threads is None:
        return 0
    try:
        count = operator.index(threads)
    except TypeError:
        count = 0
    if not 1 <= count <= 1024:
        raise ValueError(f"threads must be 1 to 1024, or None for one on each physical core, got {threads!r}")
    return count
