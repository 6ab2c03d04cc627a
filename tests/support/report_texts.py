"""Runs to tell of in texts."""

import csv
import dataclasses
import io

from adaste.paper.families.released import RELEASED
from adaste.paper.index import Run
from adaste.paper.tables import TABLES
from support.paper_runs import a_recipe, a_run

TABLE = dataclasses.replace(TABLES["table1"], families=(RELEASED,))


def runs_of(family: str, method: str, setup: str, *lasts: float, epochs: int = 3, best: float = 0.0) -> list[Run]:
    return [
        a_run(a_recipe(family, method, setup, epochs=epochs, seed=seed), [best, *[1.0] * (epochs - 2), last])
        for seed, last in enumerate(lasts)
    ]


def annealed(*lasts: float, epochs: int = 3, best: float = 94.30) -> list[Run]:
    return runs_of("released", "adaste-annealed", "cifar10-resnet18", *lasts, epochs=epochs, best=best)


def entries(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))
