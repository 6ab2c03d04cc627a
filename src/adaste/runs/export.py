"""Exports the network of a run for other programs: as a one-bit file or as ONNX."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adaste._util.files import write_atomically
from adaste.data import Dataset
from adaste.data.augment import Augmentation
from adaste.optim.partition import binary_weights
from adaste.packed.graph import Graph
from adaste.packed.onnx import to_int8_onnx
from adaste.packed.pack import to_graph, writer_for
from adaste.runs.evaluate import Exported, restore
from adaste.runs.folder import NETWORKS, RunFolder

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Written:
    """The size in bytes of the file that was written, and that of the same network in float32."""

    size: int
    float_size: int


def export(exported: Exported, path: Path, *, dataset: Dataset | None = None, calibrate: int | None = None) -> Written:
    """Write the network to `path`, in the form its ending names: .safetensors (one-bit) or .onnx.

    Args:
        exported: The network of a run.
        path: The file to write.
        dataset: Needed to calibrate, and for a network file without the shape of its images.
        calibrate: Training images that decide on the ranges of 8-bit values; with it ONNX computes in 8-bit integers.
    """
    write = writer_for(path)
    if path.suffix != ".onnx" and calibrate is not None:
        raise ValueError(
            f"8-bit integers are a form of ONNX: {path} must end in .onnx. A one-bit file needs no other form for "
            "8-bit activations: adaste_runtime.load(path, int8=True) and `adaste-run --int8` compute with them"
        )
    run = RunFolder(exported.path.parent)
    networks = [exported.path, *(run.network_file(which) for which in NETWORKS)]
    if path.resolve() in [network.resolve() for network in networks]:
        raise ValueError(f"{path} is what the run itself has left, and would be lost: choose another name or folder")
    graph = graph_of_run(exported, dataset)
    if calibrate is None:
        content = write(graph)
    else:
        if dataset is None:
            raise ValueError("8-bit integers are calibrated with training images: a data set is needed")
        content = to_int8_onnx(graph, _prepared(exported, dataset, _spread(dataset.train.images, calibrate)).numpy())
    write_atomically(path, content)
    return Written(len(content), 4 * sum(tensor.numel() for tensor in exported.tensors.values()))


def graph_of_run(exported: Exported, dataset: Dataset | None = None) -> Graph:
    """Return the network of a run, packed; weights that its recipe left real stay so."""
    recipe, facts = exported.recipe, exported.facts(dataset)
    if not recipe.estimator.binary:
        raise ValueError(
            f"{exported.path} was trained in full precision ({type(recipe.estimator).__name__}): its weights are no "
            "single bits. Train with a method that makes them so (adaste list methods)"
        )
    model = restore(exported, CPU, dataset)
    weights = binary_weights(model, include=recipe.include or None, exclude=recipe.exclude or None)
    return to_graph(
        model,
        _prepared(exported, dataset, np.random.default_rng(0).integers(256, size=(2, *facts.shape), dtype=np.uint8)),
        classes=exported.classes,
        mean=facts.mean,
        std=facts.std,
        recipe=recipe.digest,
        float_layers=[name for name, weight in weights.rest.items() if weight.ndim > 1],
    )


def _prepared(exported: Exported, dataset: Dataset | None, images: NDArray[np.uint8]) -> Tensor:
    """Return images as the network sees them in evaluation."""
    facts = exported.facts(dataset)
    augmentation = Augmentation(exported.recipe.augmentation, facts.mean, facts.std)
    return augmentation.prepare(torch.from_numpy(np.array(images)), torch.float32).contiguous()


def _spread(images: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """Return `count` images from all over the set, which may be sorted by class."""
    return images[np.linspace(0, len(images) - 1, num=min(count, len(images)), dtype=np.int64)]
