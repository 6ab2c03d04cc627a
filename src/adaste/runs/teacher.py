"""The teacher of a recipe: its run is found by the digest of its recipe, and its network is checked and loaded."""

from pathlib import Path

import torch

from adaste.data import Dataset
from adaste.data.augment import Augmentation
from adaste.recipes.recipe import Recipe
from adaste.runs.evaluate import network_of_run, restore
from adaste.runs.folder import RunFolder
from adaste.training.execution import dtype_of
from adaste.training.step import Teacher


def find_teacher(recipe: Recipe, where: Path, dataset: Dataset, *, device: torch.device) -> Teacher | None:
    """Return the last network of the run that the recipe's distillation names; None if it names none.

    Args:
        recipe: That of the network to be trained.
        where: The folder of the teacher's run, or one that holds it beside others.
        dataset: The images of both.
        device: Where the teacher computes.

    Raises:
        ValueError: The run is missing, not finished, or of another recipe than its name says; its network file is not
            the one it wrote; it was trained on other images or classes, for another size of images, or on images that
            the recipe holds out.
    """
    if recipe.distillation is None:
        return None
    run = _run_of(recipe.distillation.teacher, where, recipe)
    result, path = run.read_result(), run.network_file("last")
    if result is None:
        raise ValueError(
            f"the teacher's run {run} is not finished: go on with "
            f"`adaste train {run.recipe_file} --folder {run}`, and start this one after it"
        )
    if not path.is_file():
        raise ValueError(
            f"the teacher's run {run} has no {path.name}: records of runs are kept without their networks. Train it "
            f"again in another folder (`adaste train {run.recipe_file} --runs DIR`), and name that with --teachers DIR"
        )
    exported = network_of_run(run.path, "last")
    sha256 = run.network_sha256("last")
    if result.last_sha256 is None:
        raise ValueError(
            f"{run.result_file} was written without the SHA-256 of {path.name}: remove it, and "
            f"`adaste train {run.recipe_file} --folder {run}` writes it again from the last checkpoint"
        )
    if sha256 != result.last_sha256:
        raise ValueError(
            f"{path} is not the network that its run wrote: its SHA-256 is {sha256}, {run.result_file.name} has "
            f"{result.last_sha256}"
        )
    exported.facts(dataset)  # an error where it was trained for other classes or shapes of images
    starts = run.read_starts()
    trained_on = starts[-1].get("data") if starts else None
    if trained_on != dataset.digest:
        raise ValueError(
            f"the teacher in {run} was trained on other images than those of {dataset.name} here: "
            f"{run.environment_file.name} has the digest {trained_on}, theirs is {dataset.digest}"
        )
    _require_same_view(recipe, exported.recipe, dataset)
    network = restore(exported, device, dataset).requires_grad_(False)
    return Teacher(network, dtype_of(exported.recipe), sha256)


def _run_of(digest: str, where: Path, student: Recipe) -> RunFolder:
    """Return the run of the recipe with this digest: `where` itself or a folder in it, a finished one if possible."""
    inside = sorted(where.iterdir()) if where.is_dir() else []
    digests = {run: _digest_of(run) for run in map(RunFolder, [where, *inside])}
    found = [run for run, its_digest in digests.items() if its_digest == digest]
    if found:
        return next((run for run in found if run.result_file.is_file()), found[0])
    for run in digests:
        if run.path.is_dir() and run.path.resolve().name.endswith(digest):
            raise ValueError(
                f"the teacher in {run} cannot be used: its name says that its recipe has the digest {digest}, but "
                f"{_why_another(run)}. Write that recipe to it again, or train the teacher again in another folder, "
                "and name that with --teachers DIR"
            )
    # The folder of the student is there before its teacher is looked for.
    entries = len(inside) - sum(digests[RunFolder(path)] == student.digest for path in inside)
    raise ValueError(
        f"the teacher is missing: no run of the recipe {digest} was found in {where} (other entries: {entries}). "
        f"Train it first (`adaste train` of its recipe, with --runs {where}), or name the folder that holds its "
        "run with --teachers DIR"
    )


def _digest_of(run: RunFolder) -> str | None:
    """Return the digest of a run's recipe; None if it cannot be read: it is not the one that is looked for."""
    try:
        return run.read_recipe().digest
    except (ValueError, OSError):
        return None


def _why_another(run: RunFolder) -> str:
    """Return what is wrong with the recipe of a run that does not have the digest in its name."""
    try:
        return f"{run.recipe_file.name} holds another one, of the digest {run.read_recipe().digest}"
    except FileNotFoundError:
        return f"{run.recipe_file.name} is missing"
    except (ValueError, OSError) as error:
        return str(error)


def _require_same_view(recipe: Recipe, teacher: Recipe, dataset: Dataset) -> None:
    """Raise ValueError if the teacher takes images of another size, or has seen some that the recipe holds out."""
    height, width, _ = dataset.train.images.shape[1:]
    sizes = [
        Augmentation(each.augmentation, dataset.mean, dataset.std).output_size((height, width))
        for each in (recipe, teacher)
    ]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"the teacher was trained on images of {sizes[1][0]} x {sizes[1][1]}, and the augmentation of this recipe "
            f"makes images of {sizes[0][0]} x {sizes[0][1]}"
        )
    if teacher.holdout < recipe.holdout:
        # The same images are held out for every seed, and the more there are, the fewer are left to train with.
        raise ValueError(
            f"this recipe holds out {recipe.holdout} training images to choose by, and its teacher, with holdout "
            f"{teacher.holdout}, was trained on them: take one with holdout {recipe.holdout} or more"
        )
