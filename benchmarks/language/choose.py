"""Print the runs of results/language as a table, and write the study that follows from them.

    python -m benchmarks.language.choose rates    # after 1-rates.json: the best rates, for 5,000 iterations
    python -m benchmarks.language.choose final    # after that: the best methods, three seeds, on the validation text
    python -m benchmarks.language.choose table

A method is a kind of estimator, scale and base. What is chosen was measured on held-out training text alone.
"""

import argparse
import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from adaste._util.files import write_atomically
from benchmarks.language.recipe import Recipe

Record = dict[str, Any]
LONG, EVERY = 5000, 250
SEEDS = [0, 1, 2]


def read_records(folder: Path) -> list[tuple[Recipe, Record]]:
    """Return all runs of a folder that ended."""
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [(Recipe(**each["recipe"]), each) for each in records if "recipe" in each and "problem" not in each]


def kind_of(recipe: Recipe) -> tuple[Any, ...]:
    """Return what makes two recipes runs of one method: rates, decays, seeds and lengths may differ."""
    return recipe.method, recipe.scale, recipe.base, recipe.vocabulary, recipe.layers, recipe.width


def best_of_each(runs: Iterable[tuple[Recipe, Record]]) -> list[tuple[Recipe, Record]]:
    """Return the run of each method that reached least, best first."""
    best: dict[tuple[Any, ...], tuple[Recipe, Record]] = {}
    for recipe, record in runs:
        known = best.get(kind_of(recipe))
        if known is None or record["best"]["measured"] < known[1]["best"]["measured"]:
            best[kind_of(recipe)] = recipe, record
    return sorted(best.values(), key=lambda run: run[1]["best"]["measured"])


def long_runs(runs: list[tuple[Recipe, Record]]) -> list[Recipe]:
    """Return recipes of full length, still on held-out text: each method with its best rate."""
    short = [(recipe, record) for recipe, record in runs if recipe.held_out and recipe.iterations < LONG]
    return [dataclasses.replace(recipe, iterations=LONG, every=EVERY) for recipe, _ in best_of_each(short)]


def final_runs(runs: list[tuple[Recipe, Record]], methods: int) -> list[Recipe]:
    """Return recipes on the validation text: the best methods and the best in full precision, with all seeds."""
    long = best_of_each((recipe, record) for recipe, record in runs if recipe.held_out and recipe.iterations == LONG)
    real = [recipe for recipe, _ in long if recipe.method == "full-precision"][:1]
    binary = [recipe for recipe, _ in long if recipe.method != "full-precision"][:methods]
    return [dataclasses.replace(each, held_out=False, seed=seed) for seed in SEEDS for each in (*real, *binary)]


def measured_at(record: Record, iteration: int) -> float:
    """Return what a run had reached at an iteration."""
    return next(float(row["measured"]) for row in record["curve"] if row["iteration"] == iteration)


def final_table(runs: list[tuple[Recipe, Record]]) -> list[str]:
    """Return a table of the runs on the validation text, at the iteration that was best on held-out text."""
    chosen = {
        kind_of(recipe): int(record["best"]["iteration"])
        for recipe, record in best_of_each(run for run in runs if run[0].held_out and run[0].iterations == LONG)
    }
    losses: dict[tuple[Any, ...], list[float]] = {}
    for recipe, record in runs:
        if not recipe.held_out and kind_of(recipe) in chosen:
            losses.setdefault(kind_of(recipe), []).append(measured_at(record, chosen[kind_of(recipe)]))
    lines = ["| method | scale | base | iteration | validation loss | n |", "|---|---|---|---|---|---|"]
    for kind, values in sorted(losses.items(), key=lambda item: mean(item[1])):
        spread = f" ± {stdev(values):.4f}" if len(values) > 1 else ""
        lines.append(f"| {' | '.join(kind[:3])} | {chosen[kind]} | {mean(values):.4f}{spread} | {len(values)} |")
    return lines


def held_out_table(runs: list[tuple[Recipe, Record]]) -> list[str]:
    """Return a table of all runs on held-out text, best first."""
    lines = ["| method | scale | base | rate | decay | iterations | best | at | last |", "|---|" + 8 * "---|"]
    held_out = [run for run in runs if run[0].held_out]
    for recipe, record in sorted(held_out, key=lambda run: (-run[0].iterations, run[1]["best"]["measured"])):
        settings = f"{recipe.method} | {recipe.scale} | {recipe.base} | {recipe.rate:g} | {recipe.decay:g}"
        best, last = record["best"], record["curve"][-1]
        row = f"{best['measured']:.4f} | {best['iteration']:.0f} | {last['measured']:.4f}"
        lines.append(f"| {settings} | {recipe.iterations} | {row} |")
    return lines


def _changes(recipe: Recipe, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a recipe that differ from the defaults, and those that every row names."""
    always = ("method", "scale", "base", "rate")
    return {
        name: value for name, value in dataclasses.asdict(recipe).items() if name in always or value != defaults[name]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("table", "rates", "final"))
    parser.add_argument("--records", type=Path, default=Path("results/language"), help="the folder of records")
    parser.add_argument("--methods", type=int, default=4, help="the number of one-bit methods in the final runs")
    parser.add_argument("--output", type=Path, help="the study file to write")
    arguments = parser.parse_args()
    runs = read_records(arguments.records)
    if arguments.what == "table":
        print("\n".join([*final_table(runs), "", *held_out_table(runs)]))
        return
    recipes = long_runs(runs) if arguments.what == "rates" else final_runs(runs, arguments.methods)
    defaults = dataclasses.asdict(Recipe("full-precision"))
    rows = [
        {
            name: value
            for name, value in dataclasses.asdict(recipe).items()
            if name == "method" or value != defaults[name]
        }
        for recipe in recipes
    ]
    lines = ",\n  ".join(json.dumps({**row, "scale": recipe.scale}) for row, recipe in zip(rows, recipes, strict=True))
    path = arguments.output or Path(__file__).parent / "studies" / f"2-{arguments.what}.json"
    write_atomically(path, f'{{\n "runs": [\n  {lines}\n ]\n}}\n'.encode())
    print(f"{len(recipes)} runs in {path}")


if __name__ == "__main__":
    main()
