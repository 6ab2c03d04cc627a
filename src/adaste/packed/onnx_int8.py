"""A packed network as ONNX with 8-bit activations and weights, calibrated on images (onnxruntime's QDQ form)."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adaste._util.extras import needs
from adaste.packed.graph import INPUT, Graph
from adaste.packed.node import Node, Weighted
from adaste.packed.onnx_file import require_onnx, to_onnx

BATCH = 16
"""Images that are looked at together; the values of all layers are in memory then."""


def to_int8_onnx(graph: Graph, images: NDArray[np.float32]) -> bytes:
    """The ONNX file of a network whose values are 8-bit integers, in ranges that `images`, normalised, decide on."""
    onnx, quantization = require_onnx(), _require_quantization()
    _check_images(images, graph.input_shape)
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(to_onnx(with_real_weights(graph))))
    # Shapes are known and BatchNorm is folded: else it warns that its own preparation was not run.
    quantization.quant_utils.add_pre_process_metadata(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        quantization.quantize_static(
            model,
            path,
            _reader(quantization, images),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            # Seven bits for weights: with eight, two products of +-127 and 255 overflow 16 bits on CPUs without VNNI.
            # Binary weights lose nothing, they are +-64 times the scale of their channel.
            reduce_range=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
        return path.read_bytes()


def _check_images(images: NDArray[np.float32], shape: tuple[int, int, int]) -> None:
    if images.ndim != 4 or images.shape[1:] != shape or not len(images):
        raise ValueError(f"images must be (n, *{shape}), at least one, got {images.shape}")
    if not np.isfinite(images).all():
        raise ValueError("images must hold finite numbers, got NaN or infinite ones")
    first = images[:1, :, :1, :1]
    if np.all(images == first):
        raise ValueError(
            f"images must show the ranges of values, which those of one colour do not: all pixels are {first.ravel()}"
        )


def with_real_weights(graph: Graph) -> Graph:
    """The same network with float32 weights that include their scales, as other engines expect them."""
    return replace(graph, nodes=tuple(_with_real_weight(node) for node in graph.nodes))


def _with_real_weight(node: Node) -> Node:
    """The scale as part of the weight: onnxruntime quantises the weights and biases of Conv and Gemm alone."""
    if not isinstance(node, Weighted):
        return node
    scale = np.ones(node.outputs) if node.scale is None else node.scale
    weight = node.dense() * scale.reshape(-1, *[1] * (len(node.weight_shape) - 1))
    return replace(node, weight=weight.astype(np.float32), kind="float", scale=None)


def _reader(quantization: Any, images: NDArray[np.float32]) -> Any:
    """What onnxruntime reads images from, a batch at a time."""

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._batches: Iterator[NDArray[np.float32]] = iter(
                images[begin : begin + BATCH] for begin in range(0, len(images), BATCH)
            )

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            batch = next(self._batches, None)
            return None if batch is None else {INPUT: batch}

    return Reader()


def _require_quantization() -> Any:
    with needs("onnxruntime", extra="onnx", purpose="8-bit ONNX"):
        from onnxruntime import quantization
    return quantization
