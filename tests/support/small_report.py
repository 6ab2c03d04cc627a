"""A folder of runs that a report can be made of: two families, several lengths and seeds, and what must not harm."""

import dataclasses
from pathlib import Path

from support.paper_runs import a_recipe, a_run, write_run

HOSTILE = "<img src=x onerror=alert(1)>"
RESNET, VGG = "cifar10-resnet18", "cifar10-vgg16"
PLANNED = [
    ("ours", "adaste", RESNET, 6, 0, 93.0),
    ("ours", "adaste", RESNET, 6, 1, 94.5),
    ("ours", "adaste", RESNET, 3, 0, 88.0),
    ("ours", "adaste-annealed", RESNET, 6, 0, 94.2),
    ("ours", "binaryconnect", RESNET, 6, 0, 90.25),
    ("ours", "adaste", VGG, 6, 0, 92.0),
    ("released", "adaste", RESNET, 6, 0, 93.96),
    ("ablation", "printed", RESNET, 9, 0, 71.0),
    ("ablation", "printed", RESNET, 6, 0, 70.0),
    ("ablation", "averaged-0.99", RESNET, 6, 0, 80.0),
]


def write_results(root: Path) -> Path:
    """Write the runs into folders of `root`."""
    for family, method, setup, epochs, seed, last in PLANNED:
        recipe = a_recipe(family, method, setup, epochs=epochs, seed=seed)
        write_run(a_run(recipe, last), root / f"{setup}-{method}-{recipe.digest}")
    recipe = a_recipe("ours", "adaste", RESNET, epochs=6)
    write_run(a_run(dataclasses.replace(recipe, batch=100), 91.0, adaste="0.0.9"), root / HOSTILE)
    write_unfinished(root / "unfinished")
    return root


def write_unfinished(folder: Path) -> None:
    """Write a run that has no result yet."""
    write_run(a_run(a_recipe("ours", "pmf", RESNET), 90.0), folder)
    (folder / "result.json").unlink()
