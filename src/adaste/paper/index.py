"""The runs in a folder: each with what it wrote, where it belongs in the paper, and what is wrong with the others."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from adaste import __version__
from adaste._util.serial import UnknownKindError, require_types
from adaste.data import is_own
from adaste.paper.families import Family, Setup
from adaste.paper.tables import CellId, cell_ids_of
from adaste.recipes.recipe import Recipe
from adaste.runs.folder import Result, RunFolder
from adaste.training.records import Histogram, Record, best_of

DIGEST = re.compile(r"-([0-9a-f]{16})$")
"""The end of a folder's name that says which recipe it holds."""

NUMBERS = tuple(field.name for field in fields(Record) if field.name != "method")
"""The fields of a record that are numbers."""


@dataclass(frozen=True)
class Run:
    """A finished run, as read from its folder.

    Args:
        environments: The device and software, one entry per start.
        cell_ids: The cells it belongs to: equal recipes may be in several families. Empty for a run of another recipe.
    """

    folder: Path
    recipe: Recipe
    records: tuple[Record, ...]
    result: Result
    environments: tuple[dict[str, Any], ...]
    histogram: Histogram | None
    cell_ids: tuple[CellId, ...]

    def __post_init__(self) -> None:
        for record in self.records:
            if record.test_accuracy is not None and not 0 <= record.test_accuracy <= 100:
                raise ValueError(f"damaged: the test accuracy of epoch {record.epoch + 1} is {record.test_accuracy} %")
        for name, value in self._result_by_records().items():
            if (told := getattr(self.result, name)) != value:
                here = RunFolder(self.folder)
                result, records = here.result_file.name, here.metrics_file.name
                raise ValueError(f"damaged: {name} is {told} in {result} and {value} by {records}")

    def _result_by_records(self) -> dict[str, float | None]:
        best = best_of(self.records)
        return {
            "epochs": len(self.records),
            "last_accuracy": self.records[-1].test_accuracy,
            "best_epoch": best.epoch if best else None,
            "best_accuracy": best.test_accuracy if best else None,
        }

    @cached_property
    def digest(self) -> str:
        """The digest of the recipe."""
        return self.recipe.digest

    @property
    def image_digest(self) -> str | None:
        """The digest of the images, if they are one's own; None if it was not recorded.

        Recipes name all other images, and there it is None: the same ones have a digest for each form of their files.
        """
        start = self.environments[-1] if self.environments and is_own(self.recipe.data) else {}
        return str(start["data"]) if start.get("data") else None

    @property
    def key(self) -> str:
        """A name for recipe and images: no two runs of a collection share it."""
        return f"{self.digest}-{self.image_digest[:8]}" if self.image_digest else self.digest

    @property
    def unseeded(self) -> tuple[Recipe, str | None]:
        """The recipe without its seed, and the images: equal for runs that differ in their seeds alone."""
        return self.recipe.unseeded, self.image_digest

    def belongs_to(self, family: Family, method: str, setup: Setup) -> bool:
        """Return whether this is a run of the family's recipe for the method in the setup."""
        return CellId(family.name, method, setup.name) in self.cell_ids

    @property
    def other_versions(self) -> tuple[str, ...]:
        """The other versions of adaste that made it."""
        return _other_versions(self.environments)


@dataclass(frozen=True)
class Problem:
    """Why a folder is left out."""

    folder: Path
    reason: str


@dataclass(frozen=True)
class Collection:
    """The finished runs in a folder, and the folders that hold none.

    Args:
        paper: Whether a report has the paper's tables and figures even if no run belongs to them.
    """

    runs: tuple[Run, ...]
    problems: tuple[Problem, ...]
    paper: bool = False

    @property
    def shows_paper(self) -> bool:
        """Whether a report has the paper's tables and figures: runs of one's own say nothing in them."""
        return self.paper or any(run.cell_ids for run in self.runs)

    def of_length(self, epochs: int) -> "Collection":
        """Return the runs of that many epochs. Raise ValueError if there are none."""
        runs = tuple(run for run in self.runs if run.recipe.epochs == epochs)
        if not runs:
            lengths = sorted({run.recipe.epochs for run in self.runs})
            have = f"there are runs of {', '.join(map(str, lengths))}" if lengths else "there is no finished run at all"
            raise ValueError(f"there is no finished run of {epochs} epochs; {have}")
        return replace(self, runs=runs)

    @property
    def foreign(self) -> dict[Path, str]:
        """The folders of runs that another version of adaste has made, with that version."""
        return {run.folder: ", ".join(run.other_versions) for run in self.runs if run.other_versions}


def collect(root: Path) -> Collection:
    """Return all runs in `root` and below; unfinished, damaged, duplicate and unknown ones become problems."""
    if not root.is_dir():
        raise ValueError(
            f"{root} is not a folder: results are folders of runs, as `adaste train` and `study` write them"
        )
    runs, problems = list[Run](), list[Problem]()

    def closed(error: OSError) -> None:
        problems.append(Problem(Path(error.filename), f"cannot be read ({error.strerror})"))

    for folder in _folders(root, closed):
        try:
            runs.append(read_run(folder))
        except (ValueError, OSError) as error:
            # Reports are passed on: where the folder of results lies is nobody's business.
            problems.append(Problem(folder, str(error).replace(f"{root}/", "")))
        except RecursionError:
            problems.append(Problem(folder, "damaged: its JSON is nested too deeply"))
    shown: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: not run.folder.name.endswith(run.digest)):  # a copy has a name of its own
        if shown.setdefault(run.key, run) is not run:
            problems.append(Problem(run.folder, _why_twice(run, shown[run.key], root)))
    return Collection(
        runs=tuple(run for run in runs if shown[run.key] is run),
        problems=tuple(sorted(problems, key=lambda problem: problem.folder)),
    )


def _why_twice(run: Run, shown: Run, root: Path) -> str:
    same = f"the same recipe as in {shown.folder.relative_to(root)}, which is shown"
    if [record.test_accuracy for record in run.records] == [record.test_accuracy for record in shown.records]:
        return same
    last, other = run.result.last_accuracy, shown.result.last_accuracy
    return f"{same}, but with other numbers: {last:.2f} % after the last epoch, there {other:.2f} %"


def read_run(folder: Path) -> Run:
    """Return the finished run in `folder`. Raise ValueError if something is missing or damaged."""
    files, recipe = RunFolder(folder), _read_recipe(folder)
    # The result first: a run that is being made writes it last, and where it is there the records are complete.
    result, records = files.read_result(), files.read_records()
    if result is None:
        done, problem = f"{len(records)} of {recipe.epochs} epochs", files.read_problem()
        raise ValueError(f"failed after {done}: {problem}" if problem else f"not finished: {done}")
    metrics = files.metrics_file.name
    if len(records) != recipe.epochs:
        raise ValueError(f"incomplete: {metrics} has {len(records)} records of {recipe.epochs} epochs")
    require_types(result)
    if unsound := _why_unsound(records):
        raise ValueError(f"{metrics} is damaged ({unsound})")
    if not files.environment_file.exists():
        raise ValueError(f"{files.environment_file} is missing: nobody knows what the run ran on")
    return Run(
        folder=folder,
        recipe=recipe,
        records=tuple(records),
        result=result,
        environments=tuple(files.read_starts()),
        histogram=files.read_histogram(),
        cell_ids=cell_ids_of(recipe),
    )


def _read_recipe(folder: Path) -> Recipe:
    files = RunFolder(folder)
    if not files.recipe_file.exists():
        raise ValueError(f"damaged: {files.recipe_file.name} is missing, and nobody knows what the run was")
    try:
        recipe = files.read_recipe()
    except ValueError as error:
        reason, others = str(error), _versions_that_made(files)
        if isinstance(error.__cause__, UnknownKindError):
            reason = f"class {error.__cause__.kind} is not installed: neither adaste nor a plug-in brings it"
        hint = f"; it was made by adaste {', '.join(others)}, and this is {__version__}" if others else ""
        raise ValueError(f"{reason}{hint}") from error
    named = DIGEST.search(folder.name)
    # A field that recipes of another version lack changes the digest, and not what the run was.
    if named and named[1] != recipe.digest and not _versions_that_made(files):
        raise ValueError(f"its name ends in {named[1]}, and the digest of its recipe is {recipe.digest}")
    return recipe


def _why_unsound(records: Sequence[Record]) -> str | None:
    """Return what is wrong with the numbers: one such folder must not spoil the report."""
    if [record.epoch for record in records] != list(range(len(records))):
        return "its epochs are not 1, 2, 3, ..."
    for name in NUMBERS:
        kinds = {type(getattr(record, name)) for record in records}
        if not kinds <= {int, float, type(None)}:
            return f"in some records {name} is no number"
    return "the last epoch was not tested" if records[-1].test_accuracy is None else None


def _folders(root: Path, closed: Callable[[OSError], None]) -> list[Path]:
    """Return the folders of runs, also behind links, each once.

    `closed` is told of those that cannot be looked into.
    """
    found, seen = [], set[Path]()
    for name, below, files in os.walk(root, onerror=closed, followlinks=True):
        folder = Path(name)
        below.sort(key=lambda other: (folder.joinpath(other).is_symlink(), other))  # by its own name where it has one
        if (real := folder.resolve()) in seen:
            below.clear()
        elif RunFolder(folder).marks.intersection(files):
            found.append(folder)
        seen.add(real)
    return sorted(found)


def _other_versions(environments: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    made_by = {str(start.get("adaste", __version__)) for start in environments}
    return tuple(sorted(made_by - {__version__}))


def _versions_that_made(files: RunFolder) -> tuple[str, ...]:
    try:
        return _other_versions(files.read_starts())
    except (ValueError, OSError):  # then nobody knows
        return ()
