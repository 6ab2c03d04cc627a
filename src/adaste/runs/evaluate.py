"""An exported network from its file, and what it reaches on the test images."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from adaste._util.untrusted import kind_of_file, printable
from adaste.data import Dataset
from adaste.data.augment import Augmentation
from adaste.data.dataset import listing
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import read_recipe
from adaste.training.batches import BatchCursor, choose_feed
from adaste.training.distributed import ALONE
from adaste.training.evaluation import Evaluation, Score, evaluation_batch
from adaste.training.execution import build_network, choose_execution, dtype_of
from adaste.training.records import Record

NETWORKS = ("last", "best")
"""The networks a run leaves behind."""


@dataclass(frozen=True)
class Exported:
    """What a file says of a network: how it was trained, the record of its epoch, the names of classes, its tensors."""

    path: Path
    recipe: Recipe
    record: Record
    classes: tuple[str, ...]
    tensors: dict[str, Tensor]


def network_of_run(folder: Path, which: str = "last") -> Exported:
    """The "last" or the "best" network of the run in `folder`."""
    if which not in NETWORKS:
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}, got {which!r}")
    if folder.is_file():
        raise ValueError(f"{folder} is {_what_it_is(folder)}: give the folder of a run")
    recipe_file, path = folder / "recipe.json", folder / f"{which}.safetensors"
    if not recipe_file.is_file():
        raise ValueError(f"{folder} is not the folder of a run: it has no recipe.json; found: {listing(folder)}")
    recipe = read_recipe(recipe_file)
    if not path.is_file():
        when = "when the run is finished" if which == "last" else "with the first checkpoint after a test"
        raise ValueError(f"{folder} has no {path.name}, which is written {when}; found: {listing(folder)}")
    exported = read_network(path)
    if exported.recipe.digest != recipe.digest:
        raise ValueError(
            f"{path} belongs to another run: it was trained by the recipe {exported.recipe.digest}, "
            f"{recipe_file} is {recipe.digest}"
        )
    return exported


def read_network(path: Path) -> Exported:
    """The content of a file that a run wrote."""
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
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds tensors, but not how they were trained: {printable(str(error))}") from error
    return Exported(path, recipe, record, classes, tensors)


def restore(exported: Exported, dataset: Dataset, device: torch.device) -> nn.Module:
    """The network, for the images of `dataset`, in evaluation mode."""
    if exported.classes != dataset.classes:
        raise ValueError(
            f"{exported.path} was trained for other classes than those of {dataset.name}: {len(exported.classes)} "
            f"({_some(exported.classes)}), there are {len(dataset.classes)} ({_some(dataset.classes)})"
        )
    model = build_network(exported.recipe, dataset, device)
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
    """Loss and accuracy on the test images."""
    recipe, model = exported.recipe, restore(exported, dataset, device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    test = Evaluation(
        network=model,
        cursor=BatchCursor(choose_feed(dataset.test, device, evaluation_batch(len(dataset.test), ALONE)), device),
        augmentation=Augmentation(recipe.augmentation, dataset.mean, dataset.std),
        dtype=dtype_of(recipe),
        mode=choose_execution(engine, device=device, world=ALONE, parameters=parameters).mode,
        world=ALONE,
    )
    return test()


def _what_it_is(path: Path) -> str:
    """A file that was given for the folder of a run, in words."""
    if (path.parent / "recipe.json").is_file():
        return f"a file of the run {path.parent}"
    kind = kind_of_file(path)
    return f"a file that begins like {kind}" if kind else "a file"


def _unfit(exported: Exported, what: str) -> ValueError:
    return ValueError(f"{exported.path} does not fit the network of its recipe: {printable(what)}")


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _some(classes: tuple[str, ...]) -> str:
    return printable(", ".join(classes[:3]) + (", ..." if len(classes) > 3 else ""))
