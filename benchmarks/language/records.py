"""The records of results/language: which runs are best, and the tables and the figure that the pages show of them."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks.language.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
Made = tuple[Recipe, Record]
"""A run that ended."""

REAL = "full-precision"
NOTHING = "No run is recorded yet.\n"
PICTURE = "language-models"
NAMES = {"full-precision": "full precision", "md-tanh-s": "MD-tanh-S", "pmf": "PMF", "parq": "PARQ"}
COLOURS = ("#b2001d", "#e69f00", "#56b4e9", "#8a4f7d", "#009e73", "#0072b2")


def read_runs(folder: Path, vocabulary: str) -> list[Made]:
    """Return the runs of a folder that ended, of one kind of text."""
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    runs = [(Recipe(**each["recipe"]), each) for each in records if "recipe" in each and "problem" not in each]
    return [run for run in runs if run[0].vocabulary == vocabulary]


def read_comparisons(folder: Path) -> list[Record]:
    """Return the records of in_llama_cpp."""
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [each for each in records if "nats_llama_cpp" in each]


def kind_of(recipe: Recipe) -> tuple[str, str, str]:
    """Return what makes two recipes runs of one method: rates, decays, seeds and lengths may differ."""
    return recipe.method, recipe.scale, recipe.base


def best_of_each(runs: Iterable[Made]) -> list[Made]:
    """Return the run of each method that reached least, best first."""
    best: dict[tuple[str, str, str], Made] = {}
    for run in sorted(runs, key=_reached):
        best.setdefault(kind_of(run[0]), run)
    return list(best.values())


def _reached(run: Made) -> float:
    return float(run[1]["best"]["measured"])


def measured_at(record: Record, iteration: int) -> float:
    """Return what a run had reached at an iteration."""
    return next(float(row["measured"]) for row in record["curve"] if row["iteration"] == iteration)


def final_rows(runs: Sequence[Made]) -> list[tuple[Recipe, int, list[float]]]:
    """Return each recipe on the validation text, the iteration that counts, and the losses of its seeds there.

    The iteration is the best one of the same recipe on held-out text.
    """
    chosen = {_unseeded(recipe): int(record["best"]["iteration"]) for recipe, record in runs if recipe.held_out}
    losses: dict[Recipe, list[float]] = {}
    for recipe, record in runs:
        plain = _unseeded(recipe)
        if not recipe.held_out and plain in chosen:
            losses.setdefault(plain, []).append(measured_at(record, chosen[plain]))
    rows = [(recipe, chosen[recipe], values) for recipe, values in losses.items()]
    return sorted(rows, key=lambda row: fmean(row[2]))


def _unseeded(recipe: Recipe) -> Recipe:
    return dataclasses.replace(recipe, seed=0, held_out=True)


def _real_loss(rows: Iterable[tuple[Recipe, int, list[float]]]) -> float:
    return min((fmean(values) for recipe, _, values in rows if recipe.method == REAL), default=math.nan)


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _named(recipe: Recipe) -> list[str]:
    scale = "" if recipe.scale == "none" else recipe.scale
    return [NAMES.get(recipe.method, recipe.method), scale, recipe.base]


def _spread(values: Sequence[float]) -> str:
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")


def final_table(folder: Path) -> str:
    """Return the losses on the validation text, best first, beside the best network in full precision."""
    rows = final_rows(read_runs(folder, "characters"))
    if not rows:
        return NOTHING
    real = _real_loss(rows)
    lines = [
        [
            *(*_named(recipe), f"{recipe.rate:g}", f"{iteration:,}", _spread(values)),
            *("" if recipe.method == REAL else f"{fmean(values) - real:+.4f}", str(len(values))),
        ]
        for recipe, iteration, values in rows
    ]
    head = ["method", "scale", "base", "rate", "iteration", "validation loss", "minus full precision", "n"]
    return f"{_grid(head, lines)}\n![Losses on the validation text](pictures/{PICTURE}.svg)\n"


def held_out_table(folder: Path) -> str:
    """Return the best rate of each method on held-out text, for each number of iterations."""
    runs = [run for run in read_runs(folder, "characters") if run[0].held_out]
    if not runs:
        return NOTHING
    lengths = sorted({recipe.iterations for recipe, _ in runs})
    rows = []
    for recipe, _ in best_of_each(run for run in runs if run[0].iterations == lengths[0]):
        alike = [run for run in runs if kind_of(run[0]) == kind_of(recipe)]
        rates = sorted({each.rate for each, _ in alike})
        row = [*_named(recipe), ", ".join(f"**{rate:g}**" if rate == recipe.rate else f"{rate:g}" for rate in rates)]
        for length in lengths:
            best = min((run for run in alike if run[0].iterations == length), key=_reached, default=None)
            row.append("" if best is None else f"{_reached(best):.4f}")
        rows.append(row)
    return _grid(["method", "scale", "base", "rates", *(f"{length:,} iterations" for length in lengths)], rows)


def code_table(folder: Path) -> str:
    """Return the losses of the larger models on the modules that did not train."""
    runs = [run for run in read_runs(folder, "bytes") if not run[0].held_out]
    if not runs:
        return NOTHING
    head = ["method", "scale", "base", "rate", "iterations", "nats per byte", "bits per byte", "minutes"]
    rows = []
    for recipe, record in sorted(runs, key=lambda run: float(run[1]["curve"][-1]["measured"])):
        loss = float(record["curve"][-1]["measured"])
        settings = [*_named(recipe), f"{recipe.rate:g}", f"{recipe.iterations:,}"]
        rows.append([*settings, f"{loss:.4f}", f"{loss / math.log(2):.4f}", f"{record['seconds'] / 60:.0f}"])
    return _grid(head, rows)


def engine_table(folder: Path) -> str:
    """Return networks beside their GGUF files in llama.cpp: likelihoods, size and speed."""
    comparisons = read_comparisons(folder)
    if not comparisons:
        return NOTHING
    head = ["run", "nats, torch", "nats, llama.cpp", "Q1_0", "F16", "F16 / Q1_0", "tokens/s, Q1_0", "F16", "Q1_0 / F16"]
    rows, machines = [], []
    for each in comparisons:
        sizes = [each[f"bytes_{kind}"] for kind in ("q1_0", "f16")]
        speeds = [each[f"tokens_per_second_{kind}"]["median"] for kind in ("q1_0", "f16")]
        rows.append(
            [
                f"`{each['run'].removesuffix('.json')}`",
                *(f"{each[name]:.5f}" for name in ("nats_torch", "nats_llama_cpp")),
                *(f"{size / 1e6:.2f} MB" for size in sizes),
                f"{sizes[1] / sizes[0]:.1f}",
                *(f"{speed:.0f}" for speed in speeds),
                f"{speeds[0] / speeds[1]:.2f}",
            ]
        )
        machine = each["environment"]
        machines.append(
            f"{machine['processor']}, {machine['date'][:10]}, {each['tokens_compared']:,} tokens compared, median of "
            f"{each['rounds']} x {each['generated']} generated with {each['threads']} threads"
        )
    return f"{_grid(head, rows)}\n{'; '.join(dict.fromkeys(machines))}.\n"


def sentence(folder: Path) -> str:
    """Return the lines of README: the best one-bit network beside the one in full precision, and the largest file."""
    rows = final_rows(read_runs(folder, "characters"))
    real = _real_loss(rows)
    best = next((values for recipe, _, values in rows if recipe.method != REAL), None)
    if best is None or math.isnan(real):
        return ""
    said = (
        f"[Language models](docs/language-models.md): a Llama of nanoGPT's size reaches {fmean(best):.4f} nats per "
        f"character on Tiny Shakespeare with one-bit weights, {real:.4f} in full precision (n = {len(best)})."
    )
    largest = max(read_comparisons(folder), key=lambda each: int(each["bytes_f16"]), default=None)
    if largest is not None:
        said += f" In llama.cpp a larger one is {_factors(largest)}."
    return f"{said}\n"


def _factors(compared: Record) -> str:
    size, whole = compared["bytes_q1_0"], compared["bytes_f16"]
    speeds = [compared[f"tokens_per_second_{kind}"]["median"] for kind in ("q1_0", "f16")]
    return (
        f"a file of {size / 1e6:.1f} MB, 1/{whole / size:.1f} of that with float16 weights, and generates "
        f"{speeds[0] / speeds[1]:.1f} times its tokens per second"
    )


TABLES: MappingProxyType[str, Callable[[Path], str]] = MappingProxyType(
    {
        "final": final_table,
        "held-out": held_out_table,
        "code": code_table,
        "engines": engine_table,
        "sentence": sentence,
    }
)
"""All that pages show as text, of the folder of records."""


def draw_curves(folder: Path) -> "Figure | None":
    """Return the losses on the validation text over the iterations, mean and range over seeds; None without runs."""
    from matplotlib.figure import Figure

    from adaste.paper.figures import use_style
    from adaste.paper.report.canvas import LOOK

    runs = read_runs(folder, "characters")
    rows = final_rows(runs)
    if not rows:
        return None
    seeds: dict[Recipe, list[Record]] = {}
    for recipe, record in runs:
        if not recipe.held_out:
            seeds.setdefault(_unseeded(recipe), []).append(record)
    with use_style(LOOK):
        drawing = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = drawing.subplots()
        colours = iter(COLOURS)
        for recipe, _, _ in rows:
            curves = [[row["measured"] for row in record["curve"]] for record in seeds[recipe]]
            iterations = [row["iteration"] for row in seeds[recipe][0]["curve"]]
            real = recipe.method == REAL
            colour = "#555555" if real else next(colours)
            mean = [fmean(values) for values in zip(*curves, strict=True)]
            label = ", ".join(filter(None, _named(recipe)))
            axes.plot(iterations, mean, color=colour, linestyle="--" if real else "-", linewidth=1.6, label=label)
            ends = [list(map(end, zip(*curves, strict=True))) for end in (min, max)]
            axes.fill_between(iterations, *ends, color=colour, alpha=0.2, linewidth=0)
        axes.set(xlabel="iteration", ylabel="nats per character, validation text")
        axes.legend()
    return drawing
