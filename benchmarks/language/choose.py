"""Write the study that follows from the runs of results/language.

    python -m benchmarks.language.choose rates    # after 1-rates.json: the best methods at their best rates, longer
    python -m benchmarks.language.choose final    # after that: the best of these, three seeds, on the validation text
    python -m benchmarks.language.choose code     # after 3-code-rates.json: the larger model and its float twin

A method is a kind of estimator, scale and base. What is chosen was measured on held-out training text alone.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adaste._util.files import write_atomically
from benchmarks.language.recipe import Recipe
from benchmarks.language.records import REAL, Made, best_of_each, read_runs

SEEDS = (0, 1, 2)
WHAT = {
    "rates": ("characters", "2-rates", 5000),
    "final": ("characters", "2-final", 5000),
    "code": ("bytes", "4-code", 8000),
}
"""The text of a study, its name, and its iterations."""


def best_recipes(runs: Sequence[Made], methods: int, real: int) -> list[Recipe]:
    """Return the best recipes in full precision, and those of the best methods with one-bit weights."""
    best = [recipe for recipe, _ in best_of_each(runs)]
    return [
        *[recipe for recipe in best if recipe.method == REAL][:real],
        *[recipe for recipe in best if recipe.method != REAL][:methods],
    ]


def next_recipes(what: str, runs: Sequence[Made], iterations: int, methods: int) -> list[Recipe]:
    """Return the recipes of the study that follows from all runs on held-out text."""
    held_out = [run for run in runs if run[0].held_out]
    short = [run for run in held_out if run[0].iterations < iterations // 2]
    if what == "rates":
        chosen = best_recipes(short, methods, real=2)
        best = best_recipes(short, 2, real=1)  # of half the length, too: the text is small, and long runs overfit
        lengths = [*((each, iterations) for each in chosen), *((each, iterations // 2) for each in best)]
        return [dataclasses.replace(each, iterations=n, every=max(1, n // 20)) for each, n in lengths]
    if what == "code":
        chosen = best_recipes(short, 1, real=1)
        tenth, twentieth = (max(1, iterations // parts) for parts in (10, 20))
        whole = {"iterations": iterations, "every": tenth, "warm_up": twentieth, "held_out": False}
        return [dataclasses.replace(each, **whole) for each in reversed(chosen)]
    long = [run for run in held_out if iterations // 2 <= run[0].iterations <= iterations]
    chosen = best_recipes(long, methods, real=1)
    return [dataclasses.replace(each, held_out=False, seed=seed) for seed in SEEDS for each in chosen]


def to_study(recipes: Sequence[Recipe]) -> bytes:
    """Return a study file of these recipes; a row names only what differs from the defaults."""
    usual = dataclasses.asdict(Recipe(REAL))
    rows = [{**recipe_row(recipe, usual), "scale": recipe.scale} for recipe in recipes]
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    return f'{{\n "runs": [\n  {lines}\n ]\n}}\n'.encode()


def recipe_row(recipe: Recipe, usual: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a recipe that differ from the usual ones, and its method."""
    fields = dataclasses.asdict(recipe)
    return {name: value for name, value in fields.items() if name == "method" or value != usual[name]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=tuple(WHAT))
    parser.add_argument("--records", type=Path, default=Path("results/language"), help="the folder of records")
    parser.add_argument("--iterations", type=int, help="of the runs: 5,000, or 8,000 of the larger model")
    parser.add_argument("--methods", type=int, help="one-bit methods to go on with: 6 after their rates, 4 in the end")
    parser.add_argument("--output", type=Path, help="the study file to write")
    arguments = parser.parse_args()
    vocabulary, name, usual = WHAT[arguments.what]
    iterations = arguments.iterations or usual
    methods = arguments.methods or {"rates": 6}.get(arguments.what, 4)
    recipes = next_recipes(arguments.what, read_runs(arguments.records, vocabulary), iterations, methods)
    if not recipes:
        raise SystemExit(f"no run in {arguments.records} is of the study before this one: train that first")
    path = arguments.output or Path(__file__).parent / "studies" / f"{name}.json"
    write_atomically(path, to_study(recipes))
    print(f"{len(recipes)} runs in {path}")


if __name__ == "__main__":
    main()
