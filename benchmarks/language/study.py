"""Train the language models of a study file, several at once on one GPU, and write a record of each.

    python -m benchmarks.language.study benchmarks/language/studies/1-rates.json --text tinyshakespeare.txt --minutes 8

A study is JSON: {"runs": [RECIPE, ...]} with the fields of `Recipe`; a list in the place of a value stands for one run
with each. Runs whose record is in the output folder are skipped, so that a study goes on where it was stopped. No run
is started that would not end in time, by the pace of those before it and of the records of networks of its shape; a run
that is not through in time is given up. With --checkpoints all the time is used: such a run is saved, and continued the
next time. Nothing is loaded from the net.
"""

import argparse
import dataclasses
import gc
import itertools
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch

from adaste import NonFiniteGradientError
from adaste._util.files import write_atomically
from adaste.runs.study.processes import shared_gpu
from benchmarks.language.recipe import Recipe
from benchmarks.language.train import Run, read_text
from benchmarks.language.weights import save_weights

STARTING = 90.0
"""Seconds in which the first runs of a process start, most of them the compiler's."""
PREPARING = 10.0
"""Seconds in which a later run of a process starts."""
SHAPE = ("layers", "width", "intermediate", "context", "batch")

FIELDS = {field.name for field in dataclasses.fields(Recipe)}


def recipes_in(study: dict[str, Any]) -> list[Recipe]:
    """Return the recipes of a study in order, each once."""
    found: dict[Recipe, None] = {}
    for row in study["runs"]:
        unknown = sorted(row.keys() - FIELDS)
        if unknown:
            raise ValueError(f"a recipe has no {', '.join(unknown)}; it has {', '.join(sorted(FIELDS))}")
        choices = [value if isinstance(value, list) else [value] for value in row.values()]
        for values in itertools.product(*choices):
            found[Recipe(**dict(zip(row, values, strict=True)))] = None
    return list(found)


def write_record(path: Path, record: dict[str, Any]) -> None:
    """Write a record as the files of results/language are: one line per measurement."""
    curve = ",\n  ".join(json.dumps(row) for row in record.get("curve", []))
    rest = json.dumps({**record, "curve": "CURVE"}, indent=1)
    write_atomically(path, (rest.replace('"CURVE"', f"[\n  {curve}\n ]") + "\n").encode())


@dataclasses.dataclass(frozen=True)
class Job:
    """How a process trains the runs it is given.

    Args:
        text: The file.
        output: The folder of records.
        device: Where to train.
        until: When to stop, in seconds of `time.monotonic()`.
        checkpoints: The folder of checkpoints; None for none.
        weights: The folder where binary networks are kept; None for none.
        at_once: The number of runs that share the device.
        plain: Whether steps on a GPU are made without compiler and CUDA graph.
    """

    text: Path
    output: Path
    device: str
    until: float
    checkpoints: Path | None
    weights: Path | None
    at_once: int
    plain: bool = False

    def __call__(self, recipe: Recipe) -> str | None:
        """Train one run and write its record; return what to tell, or None if it ran out of time."""
        gc.collect()  # a run before this one and its CUDA graph hold each other, and the device's memory
        device, path = torch.device(self.device), self.output / f"{recipe.name}.json"
        run = Run(recipe, read_text(self.text, recipe, device), device, plain=self.plain)
        checkpoint = None if self.checkpoints is None else self.checkpoints / f"{recipe.name}.pt"
        if checkpoint is not None and checkpoint.exists():
            run.load(checkpoint)
        try:
            done = run.train(self.until)
        except NonFiniteGradientError as error:
            write_record(path, {**run.record(), "at_once": self.at_once, "problem": str(error)})
            return f"diverged: {error}"
        if not done:
            if checkpoint is not None:
                run.save(checkpoint)
            return None
        if self.weights is not None:
            with run.optimizers.latents.binarized(run.network):
                save_weights(self.weights / f"{recipe.name}.safetensors", run.network)
        write_record(path, {**run.record(), "at_once": self.at_once})
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        best, last = min(run.curve, key=lambda row: row["measured"]), run.curve[-1]
        return f"{best['measured']:.4f} at {best['iteration']:.0f}, last {last['measured']:.4f}, {run.seconds:.0f} s"


def known_paces(folder: Path, recipes: list[Recipe]) -> list[float]:
    """Return seconds per iteration of the runs in a folder that have a network like these."""
    shapes = {tuple(getattr(recipe, name) for name in SHAPE) for recipe in recipes}
    records = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    runs = [each for each in records if each.get("recipe", {}).get("layers") and "problem" not in each]
    alike = [each for each in runs if tuple(each["recipe"][name] for name in SHAPE) in shapes]
    return [each["seconds"] / each["recipe"]["iterations"] for each in alike]


def _set_threads(count: int) -> None:
    torch.set_num_threads(count)


def train_all(left: list[Recipe], known: list[float], job: Job, says: Callable[[str], None]) -> list[Recipe]:
    """Train recipes in order, several at once, as long as there is time; return those that failed.

    Args:
        left: The recipes.
        known: Seconds per iteration of earlier runs, without their start; may be empty.
        job: How a process trains them.
        says: Takes lines to print.
    """
    waiting, running = iter(left), dict[Future[str | None], tuple[Recipe, float]]()
    paces: list[float] = []
    failed: list[Recipe] = []
    threads = max(1, (os.cpu_count() or 1) // job.at_once)
    context = get_context("spawn")
    with ProcessPoolExecutor(job.at_once, context, initializer=_set_threads, initargs=(threads,)) as pool:
        while True:
            for recipe in itertools.islice(waiting, job.at_once - len(running)):
                begun = PREPARING if paces else STARTING
                needed = seconds_of(recipe, paces, known) if job.checkpoints is None else begun
                if time.monotonic() + needed < job.until:
                    running[pool.submit(job, recipe)] = recipe, time.monotonic()
            if not running:
                return failed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                recipe, started = running.pop(future)
                took = time.monotonic() - started
                try:
                    told = future.result()
                except BrokenProcessPool:
                    raise
                except Exception as error:  # one run that cannot be trained does not end the others
                    told = f"failed with {type(error).__name__}: {error}"
                    failed.append(recipe)
                else:
                    if told is not None:
                        paces.append(took / recipe.iterations)
                says(f"{recipe.name}: {told or 'not through in time'} ({took:.0f} s with start)")


def seconds_of(recipe: Recipe, paces: list[float], known: list[float]) -> float:
    """Return how long a run should take, by the paces of others with their start, or of earlier ones without it."""
    if paces:
        return recipe.iterations * median(paces)
    return STARTING + recipe.iterations * median(known) if known else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the study file")
    parser.add_argument("--text", type=Path, required=True, help="the text")
    parser.add_argument("--output", type=Path, default=Path("results/language"), help="the folder of records")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="the time to train")
    parser.add_argument("--at-once", type=int, default=4, help="runs that share the device")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--checkpoints", type=Path, help="keep runs that are not through here, and continue them")
    parser.add_argument("--weights", type=Path, help="keep the networks of runs here")
    parser.add_argument("--plain", action="store_true", help="steps on a GPU without compiler and CUDA graph")
    parser.add_argument("--dry-run", action="store_true", help="list what is left")
    arguments = parser.parse_args()
    until = time.monotonic() + 60 * arguments.minutes
    recipes = recipes_in(json.loads(arguments.study.read_text()))
    for folder in (arguments.output, arguments.checkpoints, arguments.weights):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    left = [recipe for recipe in recipes if not (arguments.output / f"{recipe.name}.json").exists()]
    print(f"{len(recipes) - len(left)} of {len(recipes)} runs have a record", flush=True)
    if arguments.dry_run:
        print("\n".join(recipe.name for recipe in left))
        return
    job = Job(
        arguments.text,
        arguments.output,
        arguments.device,
        until,
        arguments.checkpoints,
        arguments.weights,
        arguments.at_once,
        arguments.plain,
    )
    says = lambda line: print(line, flush=True)  # noqa: E731
    with shared_gpu(says) as variables:
        os.environ.update(variables)
        failed = train_all(left, known_paces(arguments.output, left), job, says)
    done = sum((arguments.output / f"{recipe.name}.json").exists() for recipe in recipes)
    print(f"{done} of {len(recipes)} runs have a record now", flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} runs failed, see above")


if __name__ == "__main__":
    main()
