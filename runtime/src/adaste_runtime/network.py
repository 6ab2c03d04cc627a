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


ZOO = "zoo:"
"""What the name of a network of the zoo begins with, as in adaste.load_packed."""


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
        """Channels, height and width of its images. A ValueError where it does not take images alone."""
        return self._network.input_shape

    @property
    def outputs(self) -> int:
        """How many numbers it computes for an image. A ValueError where these are not one row."""
        return self._network.outputs

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its inputs by name, without the batch."""
        return {name: tuple(shape) for name, _, shape, *_ in self._network.input_ports}

    @property
    def input_types(self) -> dict[str, str]:
        """The types of its inputs by name: "float32", or "int32" for whole numbers from 0 on."""
        return {name: kind for name, kind, *_ in self._network.input_ports}

    @property
    def output_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of its outputs by name, without the batch."""
        return {name: tuple(shape) for name, _, shape, *_ in self._network.output_ports}

    @property
    def free_sizes(self) -> dict[str, int]:
        """The sizes that its inputs decide, and the most of each, for which all shapes here are; {} for most."""
        return dict(self._network.free_sizes)

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
        shapes: dict[str, Any] = (
            {
                "input_shape": list(self.input_shape),
                "outputs": self.outputs,
            }
            if self._is_usual()
            else {
                "inputs": {name: {"type": kind, "shape": shape} for name, kind, shape, *_ in self._network.input_ports},
                "results": {name: shape for name, _, shape, *_ in self._network.output_ports},
            }
        )
        return {
            **shapes,
            "mean": self._network.mean or None,
            "std": self._network.std or None,
            "classes": self.classes,
            "recipe": self._network.recipe,
            "producer": self._network.producer,
            "binary_weights": sum(node["weights"] for node in nodes if node["bits"] == 1),
            "float_weights": sum(node["weights"] for node in nodes if node["bits"] == 32),
            "nodes": nodes,
        }

    def __call__(
        self, *inputs: NDArray[Any], **named: NDArray[Any]
    ) -> NDArray[np.float32] | dict[str, NDArray[np.float32]]:
        """The output for a batch of inputs, by their places or names; a dict by name where there are several outputs.

        Images are float32 (N, channels, height, width), normalised as in training; or uint8 (N, height, width,
        channels), which are normalised as the file says. Most networks take images alone and give (N, classes).
        """
        import numpy as np

        results, shapes, arrays = self._taken(inputs, named)
        outputs = [np.empty((len(arrays[0]), *port[2]), np.float32) for port in results]
        self._network.compute(shapes, arrays, outputs)
        if len(outputs) == 1:
            return outputs[0]
        return {port[0]: output for port, output in zip(results, outputs, strict=True)}

    def _taken(
        self, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[list[Any], list[list[int]], list[NDArray[Any]]]:
        """The outputs for the inputs of a call, as the file has them, the shapes of these, and these as arrays."""
        ports = self._network.input_ports
        free = bool(self._network.free_sizes)
        given = {**dict(zip((port[0] for port in ports), inputs, strict=False)), **named}
        if len(inputs) + len(named) != len(ports) or len(given) != len(ports) or any(p[0] not in given for p in ports):
            names = ", ".join(port[0] for port in ports)
            said = ", ".join(named) or "no names"
            raise ValueError(f"the network takes {names}, got {len(inputs)} arrays and {said}")
        shapes = [_sides(given[port[0]], port) for port in ports] if free else [list(port[2]) for port in ports]
        ports, results = self._network.ports_for(shapes) if free else (ports, self._network.output_ports)
        arrays = [self._fitting(port[0], port[1], tuple(port[2]), given[port[0]]) for port in ports]
        if any(len(array) != len(arrays[0]) for array in arrays):
            raise ValueError(f"all inputs must have one batch, got {[len(array) for array in arrays]}")
        return results, shapes, arrays

    def _fitting(self, name: str, kind: str, shape: tuple[int, ...], given: Any) -> NDArray[Any]:
        """An input as the network takes it: whole numbers of any type, and truth, become int32."""
        import numpy as np

        array = np.asarray(given)
        if kind == "float32" and len(shape) == 3:
            _check(str(array.dtype), array.shape, shape, "images" if self._takes_images() else name)
            return np.ascontiguousarray(array)
        wanted = f"{name} must be {'whole numbers' if kind == 'int32' else kind} (N, {', '.join(map(str, shape))})"
        right = array.dtype.kind in "biu" if kind == "int32" else array.dtype == np.float32
        if not right or array.ndim != len(shape) + 1 or array.shape[1:] != shape:
            raise ValueError(f"{wanted}, got {array.dtype} {array.shape}")
        if kind == "int32" and array.size and (array.min() < 0 or array.max() > 2**31 - 1):
            raise ValueError(f"{wanted} from 0 to {2**31 - 1}, got {array.min()} to {array.max()}")
        return np.ascontiguousarray(array, np.int32 if kind == "int32" else np.float32)

    def _takes_images(self) -> bool:
        """Whether it takes images alone."""
        first, *more = self._network.input_ports
        return not more and (first[1], len(first[2])) == ("float32", 3)

    def _is_usual(self) -> bool:
        """Whether it takes images alone and gives a row of numbers for each."""
        result, *others = self._network.output_ports
        return self._takes_images() and not others and len(result[2]) == 1

    def run(self, images: Any, outputs: Any) -> None:
        """Compute the outputs for images into memory that is there, without numpy.

        images:  of the types and shapes of a call
        outputs: float32 (N, classes)

        Both are anything with the buffer protocol (a memoryview, a numpy array), without gaps.
        """
        batch, target = memoryview(images), memoryview(outputs)
        _check({"f": "float32", "B": "uint8"}.get(batch.format, batch.format), batch.shape or (), self.input_shape)
        wanted = (len(batch), self.outputs)
        if target.format != "f" or target.shape != wanted or target.readonly:
            raise ValueError(f"outputs must be writable float32 {wanted}, got format {target.format!r} {target.shape}")
        if not (batch.c_contiguous and target.c_contiguous):
            raise ValueError("images and outputs must be without gaps, in the order of C")
        self._network.run(batch, target)

    def calibrate(self, *inputs: NDArray[Any], **named: NDArray[Any]) -> None:
        """Fix the ranges of 8-bit activations to those of typical inputs, given as in a call; without it each input of
        a batch has its own.

        Where sizes are free, the ranges are those of inputs of all sizes, whatever the size of these; the last call
        counts. Images that are all of one colour are refused: they show no ranges.
        """
        _, shapes, arrays = self._taken(inputs, named)
        if self._takes_images():
            _refuse_one_colour(arrays[0])
        self._network.calibrate(shapes, arrays)

    def __repr__(self) -> str:
        if self._is_usual():
            return f"Network(input_shape={self.input_shape}, outputs={self.outputs}, threads={self.threads})"
        return f"Network(inputs={self.input_shapes}, outputs={self.output_shapes}, threads={self.threads})"


def _check(dtype: str, shape: tuple[int, ...], sides: tuple[int, ...], name: str = "images") -> None:
    """A ValueError unless a type and a shape are those of a batch of maps."""
    channels, height, width = sides
    allowed = {"float32": (channels, height, width), "uint8": (height, width, channels)}
    if dtype not in allowed or len(shape) != 4 or shape[1:] != allowed[dtype]:
        raise ValueError(
            f"{name} must be float32 (N, {channels}, {height}, {width})"
            f" or uint8 (N, {height}, {width}, {channels}), got {dtype} {shape}"
        )


def _sides(given: Any, port: tuple[Any, ...]) -> list[int]:
    """The sides of an array for an input, the channels of images of bytes in front."""
    import numpy as np

    array = np.asarray(given)
    sides = list(array.shape[1:])
    if port[1] == "float32" and array.dtype == np.uint8 and len(sides) == len(port[2]) == 3:
        sides = [sides[2], *sides[:2]]
    return sides if len(sides) == len(port[2]) else list(port[2])


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

    path:    the file; or "zoo:NAME", a network of the package adaste-zoo (an ImportError where that is missing).
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
    place = located(place) if isinstance(path, str) else place
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


def located(name: str) -> str:
    """The file of a name that is a path, or "zoo:NAME"."""
    return zoo(name.removeprefix(ZOO)) if name.startswith(ZOO) else name


def zoo(name: str) -> str:
    """The file of a trained network, which `load` reads; adaste_runtime.load("zoo:digits-vgg-small") does both.

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
