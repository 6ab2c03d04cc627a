"""The folder of a run: which files it holds, how they are read and written, and that one process works in it.

recipe.json         all that decides the numbers, up to the rounding of the machine they are computed on
environment.json    what the run ran on, one entry per start
metrics.jsonl       one record per epoch
checkpoints/        the last few, to resume from exactly
best.safetensors    the network as exported, of the best epoch so far
last.safetensors    the same of the last epoch, written at the end
latents.json        the histogram of latents at the end; null if no weight is binary
result.json         the outcome; if it exists, the run is finished
problem.txt         why the last start failed, until the run is resumed
log.txt             what the process of a run printed, if a study started it
tensorboard/        TensorBoard's files, if they were asked for
.lock               held by the process that trains

Needs no torch: a process that only looks after runs starts at once.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adaste._util.files import UNFINISHED, append, remove_unfinished, try_lock, write_atomically, write_json
from adaste._util.signals import StoppedError
from adaste.training.records import Histogram, Record

if TYPE_CHECKING:
    from adaste.recipes.recipe import Recipe

NETWORKS = ("last", "best")
"""The networks a run leaves behind."""


class TakenError(RuntimeError):
    """Another process trains in a folder."""

    exit_code = 75
    """The exit code of `adaste train` for it: EX_TEMPFAIL of sysexits.h, a failure that will pass."""


@dataclass(frozen=True)
class Result:
    """The outcome of a run. Accuracies in percent, on the test images, of the weights as exported."""

    last_accuracy: float
    best_accuracy: float
    """On the test images in the best epoch, which is chosen on the images held out if there are some."""
    best_epoch: int
    epochs: int
    seconds: float
    """Of training and evaluation, over all starts."""
    last_sha256: str | None = None
    """Of the file of the last network; None in older results."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. It alone knows the names of the files in it.

    folder = RunFolder(Path("runs/digits-mlp-adaste-0123456789abcdef"))
    folder.read_result(), folder.read_records()[-1].test_accuracy
    """

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def recipe_file(self) -> Path:
        """The recipe, as JSON."""
        return self.path / "recipe.json"

    @property
    def environment_file(self) -> Path:
        """A list of what each start of the run ran on, as JSON."""
        return self.path / "environment.json"

    @property
    def metrics_file(self) -> Path:
        """A record per epoch, each a line of JSON."""
        return self.path / "metrics.jsonl"

    @property
    def result_file(self) -> Path:
        """The outcome, as JSON."""
        return self.path / "result.json"

    @property
    def latents_file(self) -> Path:
        """The histogram of latents, as JSON."""
        return self.path / "latents.json"

    @property
    def problem_file(self) -> Path:
        """Why the last start failed, in one line."""
        return self.path / "problem.txt"

    @property
    def log_file(self) -> Path:
        """What the process of the run printed."""
        return self.path / "log.txt"

    @property
    def lock_file(self) -> Path:
        """The file whose lock the training process holds."""
        return self.path / ".lock"

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's files."""
        return self.path / "tensorboard"

    def network_file(self, which: str) -> Path:
        """Return the path of the "last" or the "best" network."""
        if which not in NETWORKS:
            raise ValueError(f"network must be one of {', '.join(NETWORKS)}, got {which!r}")
        return self.path / f"{which}.safetensors"

    def network_sha256(self, which: str) -> str:
        """Return the SHA-256 of the file of the "last" or the "best" network."""
        with self.network_file(which).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def marks(self) -> frozenset[str]:
        """The names of the files that each show that a folder is that of a run."""
        return frozenset(path.name for path in (self.recipe_file, self.metrics_file, self.result_file))

    # One process at a time.

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder's lock. Raise TakenError if another process has it."""
        with self.lock_file.open("w") as lock:
            if not try_lock(lock):
                raise TakenError(f"another process trains in {self}: wait for it, or use another folder")
            yield

    def is_taken(self) -> bool:
        """Return whether a process holds the folder's lock now."""
        try:
            with self.lock():
                return False
        except TakenError:
            return True

    # The files that say what the run is and what came of it.

    def claim(self, recipe: "Recipe") -> None:
        """Write the recipe into an empty folder. Raise ValueError if the folder holds another recipe."""
        if not self.recipe_file.exists():
            write_atomically(self.recipe_file, _readable(recipe).encode())
            return
        there = self.read_recipe()
        if there.digest != recipe.digest:
            raise ValueError(
                f"{self} holds a run of another recipe (digest {there.digest}, this one is {recipe.digest}): "
                "use another folder"
            )

    def read_recipe(self) -> "Recipe":
        """Return the recipe of the run."""
        from adaste._util.serial import UnknownKindError
        from adaste.recipes.recipe import Recipe

        try:
            return Recipe.from_json(self.recipe_file.read_text())
        except UnknownKindError as error:
            raise ValueError(
                f"{self.recipe_file}: class {error.kind} is not installed: neither adaste nor a plug-in brings it"
            ) from error
        except ValueError as error:
            raise ValueError(f"{self.recipe_file} holds no recipe: {error}") from error

    def read_starts(self) -> list[dict[str, Any]]:
        """Return what each start of the run ran on; nothing if the file is missing."""
        path = self.environment_file
        try:
            starts = json.loads(path.read_text()) if path.exists() else []
            if not isinstance(starts, list) or not all(isinstance(start, dict) for start in starts):
                raise ValueError("it is no list of starts")
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error})") from error
        return starts

    def write_starts(self, starts: Sequence[Mapping[str, Any]]) -> None:
        """Write what each start ran on."""
        write_json(self.environment_file, starts)

    def read_records(self) -> list[Record]:
        """Return the records so far; a line that is being written is left out."""
        path = self.metrics_file
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        try:
            return [Record(**json.loads(line)) for line in lines if line.endswith("\n")]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}): the run writes it again when it goes on") from error

    def write_records(self, records: Sequence[Record]) -> None:
        """Write these records in place of those that are there."""
        write_atomically(self.metrics_file, b"".join(_line(record) for record in records))

    def append_record(self, record: Record) -> None:
        """Add the record of the next epoch."""
        append(self.metrics_file, _line(record))

    def read_result(self) -> Result | None:
        """Return the outcome; None if the run is not finished."""
        path = self.result_file
        try:
            return Result(**json.loads(path.read_text())) if path.exists() else None
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}): remove it, and the run writes it again") from error

    def write_result(self, result: Result) -> None:
        """Write the outcome; from then on the run counts as finished."""
        write_json(self.result_file, asdict(result))

    def read_histogram(self) -> Histogram | None:
        """Return the latents at the end of the run; None if it wrote none or no weight is binary."""
        path = self.latents_file
        try:
            plain = json.loads(path.read_text()) if path.exists() else None
            return Histogram(float(plain["reach"]), tuple(map(int, plain["counts"]))) if plain else None
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path} is damaged ({error}): remove it, and the run counts without it") from error

    def write_histogram(self, histogram: Histogram | None) -> None:
        """Write the latents at the end."""
        write_json(self.latents_file, histogram and asdict(histogram))

    # Why a run failed: else nobody could tell it from one that is being made.

    @contextmanager
    def report_failure(self) -> Iterator[None]:
        """Write an error that is raised inside to the folder, after removing that of an earlier start."""
        self.forget_problem()
        try:
            yield
        except StoppedError:
            raise
        except Exception as error:
            self.write_problem(str(error) or type(error).__name__)
            raise

    def write_problem(self, reason: str) -> None:
        """Write why the run failed, in one line."""
        line = next((line.strip() for line in reason.splitlines() if line.strip()), "for no reason that is known")
        # Results are passed on: where their folder lies is nobody's business.
        for name in (self.path.absolute(), self.path):
            line = line.replace(f"{name}/", "")
        with suppress(OSError):  # a full disk may be the very reason
            write_atomically(self.problem_file, f"{line}\n".encode())

    def read_problem(self) -> str | None:
        """Return why the last start failed; None if it did not."""
        return self.problem_file.read_text().strip() if self.problem_file.exists() else None

    def forget_problem(self) -> None:
        """Remove what an earlier start has written."""
        self.problem_file.unlink(missing_ok=True)

    # All files together.

    def remove_unfinished(self) -> None:
        """Remove what a process that was killed has left half-written. Only for the process that holds the lock."""
        # Not all below: a run may lie in a folder that holds other things, too.
        for place in (self.path, self.checkpoints):
            remove_unfinished(place)

    def files(self) -> dict[str, bytes]:
        """Return the content of all files of the run, by their path below the folder."""
        found = [path for path in self.path.rglob("*") if path.is_file()]
        kept = [path for path in found if path != self.lock_file and not UNFINISHED.fullmatch(path.name)]
        return {str(path.relative_to(self.path)): path.read_bytes() for path in kept}

    def update(self, files: Mapping[str, bytes]) -> None:
        """Write those of the files that differ; the result last, since with it a run counts as finished."""
        for name in sorted(files, key=lambda name: name == self.result_file.name):
            path = self.path / name
            if not path.exists() or path.read_bytes() != files[name]:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, files[name])


def _readable(recipe: "Recipe") -> str:
    """Return the recipe's JSON. Raise ValueError if it could never be read: such a run could not be resumed."""
    text = recipe.to_json()
    try:
        type(recipe).from_json(text)
    except ValueError as error:
        raise ValueError(
            f"no run can be written of this recipe, whose file nobody could read ({error}): runs are made of classes "
            "of adaste and its plug-ins; adaste.training.trainer.Training trains by any recipe and writes nothing"
        ) from error
    return text


def _line(record: Record) -> bytes:
    return (json.dumps(asdict(record)) + "\n").encode()
