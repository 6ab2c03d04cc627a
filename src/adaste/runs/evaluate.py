"""The network file of a run: how it is written and read, and what its network reaches on test images."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from adaste._util.files import kind_of_file, printable, write_atomically
from adaste.data import Dataset
from adaste.data.augment import Augmentation
from adaste.data.dataset import listing
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import RunFolder
from adaste.training.batches import BatchCursor, choose_feed
from adaste.training.distributed import ALONE
from adaste.training.evaluation import Evaluation, Score, evaluation_batch
from adaste.training.execution import build_network, choose_execution, dtype_of
from adaste.training.records import Record


@dataclass(frozen=True)
class ImageFacts:
    """The shape (height, width, channels) of the images of a network, and their mean and std on the scale 0..1."""

    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> "ImageFacts":
        """Return the facts of a data set."""
        height, width, channels = dataset.train.images.shape[1:]
        return cls((height, width, channels), dataset.mean, dataset.std)


@dataclass(frozen=True)
class Exported:
    """A trained network as its file has it.

    Args:
        recipe: How it was trained.
        record: The record of its epoch.
        classes: The names of the classes, in the order of the logits.
        images: The shape, mean and standard deviation of its images; None in older files, which need the data set.
    """

    path: Path
    recipe: Recipe
    record: Record
    classes: tuple[str, ...]
    tensors: dict[str, Tensor]
    images: ImageFacts | None

    def facts(self, dataset: Dataset | None = None) -> ImageFacts:
        """Return the facts of the images, those of `dataset` if the file has none.

        Raises:
            ValueError: The data set is of other images or classes, or it is needed and not given.
        """
        if dataset is None:
            if self.images is None:
                raise ValueError(f"{self.path} was written without the shape of its images: its data set is needed")
            return self.images
        if self.classes != dataset.classes:
            raise ValueError(
                f"{self.path} was trained for other classes than those of {dataset.name}: {len(self.classes)} "
                f"({_some(self.classes)}), there are {len(dataset.classes)} ({_some(dataset.classes)})"
            )
        given = ImageFacts.of(dataset)
        if self.images is not None and self.images.shape != given.shape:
            raise ValueError(
                f"{self.path} was trained on images of {_size(self.images)}, those of {dataset.name} are {_size(given)}"
            )
        return self.images or given


def write_network(path: Path, network: Mapping[str, Tensor], recipe: Recipe, dataset: Dataset, record: Record) -> None:
    """Write the tensors of a network as exported, with all that is needed to build and to use it."""
    images = ImageFacts.of(dataset)
    facts = {
        "recipe": json.loads(recipe.to_json()),
        "classes": dataset.classes,
        "shape": images.shape,
        "mean": images.mean,
        "std": images.std,
        "record": record.repeatable,
    }
    tensors = {key: value.detach().cpu().contiguous() for key, value in network.items()}
    # One entry, and nothing of clocks: entries are written in random order, and equal runs give equal files.
    write_atomically(path, to_safetensors(tensors, {"adaste": json.dumps(facts)}))


def network_of_run(folder: Path, which: str = "last") -> Exported:
    """Return the "last" or the "best" network of the run in `folder`."""
    run = RunFolder(folder)
    path = run.network_file(which)
    if not run.recipe_file.is_file():
        raise ValueError(
            f"{folder} is not the folder of a run: it has no {run.recipe_file.name}; found: {listing(folder)}"
        )
    recipe = run.read_recipe()
    if not path.is_file():
        when = "when the run is finished" if which == "last" else "with the first checkpoint after a test"
        instead = "; --network best takes that of its best epoch" if run.network_file("best").is_file() else ""
        raise ValueError(f"{folder} has no {path.name}, which is written {when}{instead}; found: {listing(folder)}")
    exported = read_network(path)
    if exported.recipe.digest != recipe.digest:
        raise ValueError(
            f"{path} belongs to another run: it was trained by the recipe {exported.recipe.digest}, "
            f"{run.recipe_file} is {recipe.digest}"
        )
    return exported


def read_network(path: Path) -> Exported:
    """Return the content of a file that `write_network` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except SafetensorError as error:
        kind = kind_of_file(path)
        if kind is not None:
            raise ValueError(f"{path} is not a safetensors file (it begins like {kind})") from error
        raise ValueError(f"{path} is truncated or no safetensors file: {printable(str(error))}") from error
    if "crc32" in metadata:
        raise ValueError(
            f"{path} is a packed network, which adaste.load_packed and adaste-run read: a run's own has the weights it "
            "was trained with"
        )
    try:
        facts = json.loads(metadata["adaste"])
        recipe = Recipe.from_json(json.dumps(facts["recipe"]))
        record, classes = Record(**facts["record"]), tuple(facts["classes"])
        images = _images_of(facts)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds tensors, but not how they were trained: {printable(str(error))}") from error
    return Exported(path, recipe, record, classes, tensors, images)


def _images_of(facts: Mapping[str, Any]) -> ImageFacts | None:
    """Return what the metadata of a network file say of images; None if it is an older file."""
    if "shape" not in facts:
        return None
    height, width, channels = map(int, facts["shape"])
    mean, std = (tuple(map(float, facts[name])) for name in ("mean", "std"))
    if len(mean) != channels or len(std) != channels:
        raise ValueError(f"mean and std must have one number for each of {channels} channels, got {mean} and {std}")
    return ImageFacts((height, width, channels), mean, std)


def restore(exported: Exported, device: torch.device, dataset: Dataset | None = None) -> nn.Module:
    """Return the network in evaluation mode. The data set is needed only for a file without `images`."""
    facts = exported.facts(dataset)
    augmentation = Augmentation(exported.recipe.augmentation, facts.mean, facts.std)
    model = build_network(exported.recipe, augmentation, facts.shape, len(exported.classes), device)
    # Not load_state_dict: without the versions that only pickles carry it invents counters for BatchNorm.
    wanted = model.state_dict()
    for name in sorted(wanted.keys() ^ exported.tensors.keys()):
        raise _unfit(exported, f"{name} is only in the {'network' if name in wanted else 'file'}")
    for name, tensor in wanted.items():
        found = exported.tensors[name]
        if (found.shape, found.dtype) != (tensor.shape, tensor.dtype):
            raise _unfit(exported, f"{name} is {_kind(found)} in the file and {_kind(tensor)} in the network")
        tensor.copy_(found)
    return model.eval()


def evaluate(exported: Exported, dataset: Dataset, *, device: torch.device, engine: str = "auto") -> Score:
    """Return loss and accuracy on the test images."""
    facts, model = exported.facts(dataset), restore(exported, device, dataset)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    # Those of the run: with its engine, the accuracy is the one that it recorded.
    trained = max(0, len(dataset.train) - exported.recipe.holdout)  # fewer than a batch may be here
    steps = exported.recipe.epochs * (trained // exported.recipe.batch)
    feed = choose_feed(dataset.test, device, evaluation_batch(len(dataset.test), ALONE))
    test = Evaluation(
        network=model,
        cursor=BatchCursor(feed, device),
        augmentation=Augmentation(exported.recipe.augmentation, facts.mean, facts.std),
        dtype=dtype_of(exported.recipe),
        mode=choose_execution(engine, device=device, world=ALONE, parameters=parameters, steps=steps).mode,
        world=ALONE,
    )
    return test()


def _unfit(exported: Exported, what: str) -> ValueError:
    return ValueError(f"{exported.path} does not fit the network of its recipe: {printable(what)}")


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _some(classes: tuple[str, ...]) -> str:
    return printable(", ".join(classes[:3]) + (", ..." if len(classes) > 3 else ""))


def _size(images: ImageFacts) -> str:
    return " x ".join(map(str, images.shape))
