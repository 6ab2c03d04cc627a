"""A run: training by a recipe that is recorded in a folder, and resumed from there after an interruption.

Observers follow it; one of them writes TensorBoard's files.
"""

import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from adaste._util.checks import require, require_count
from adaste._util.packages import require_package
from adaste._util.signals import Heard, StoppedError, listen_for_stop
from adaste.data import Dataset, is_own
from adaste.recipes.recipe import Recipe
from adaste.runs.checkpoint import Checkpoints, load
from adaste.runs.environment import environment
from adaste.runs.evaluate import write_network
from adaste.runs.folder import Result, RunFolder
from adaste.runs.teacher import find_teacher
from adaste.training.batches import steps_of_recipe
from adaste.training.distributed import ALONE, RankConsensus, World
from adaste.training.evaluation import histogram
from adaste.training.execution import algorithms
from adaste.training.records import DivergedError, Record, best_of
from adaste.training.trainer import Training


class Observer(Protocol):
    """Follows a run. All methods are called in the leading process."""

    def begins(self, training: Training, records: list[Record]) -> None:
        """Called before training begins or, after these records, resumes."""

    def stepped(self, training: Training) -> None:
        """Called after every step; on a GPU, after it was launched."""

    def epoch_ended(self, record: Record) -> None:
        """Called after every epoch."""

    def says(self, text: str) -> None:
        """Called with a message of one line."""


class Silent:
    """An observer that does nothing."""

    def begins(self, training: Training, records: list[Record]) -> None: ...
    def stepped(self, training: Training) -> None: ...
    def epoch_ended(self, record: Record) -> None: ...
    def says(self, text: str) -> None: ...


SILENT = Silent()

SCALARS = (
    *("loss", "train_accuracy", "lr", "flipped", "latent", "images_per_second"),
    *("test_loss", "test_accuracy", "holdout_accuracy"),
)
"""The numbers of a record that TensorBoard shows."""


class TensorBoard(Silent):
    """An observer that writes a scalar per number and epoch into `folder`; needs the package tensorboard.

        with TensorBoard(folder) as board:
            run(recipe, run_folder, dataset, device=device, observer=board)

    Its file is closed at the end.
    """

    def __init__(self, folder: Path) -> None:
        with require_package("tensorboard", extra="tensorboard", purpose="an observer for TensorBoard"):
            from torch.utils.tensorboard import SummaryWriter
        self._folder, self._make = folder, SummaryWriter
        self._writer: Any = None

    def begins(self, training: Training, records: list[Record]) -> None:
        # Purge what an interrupted run wrote after its last checkpoint: those epochs are repeated.
        self._writer = self._make(str(self._folder), purge_step=len(records))

    def epoch_ended(self, record: Record) -> None:
        values = {name: getattr(record, name) for name in SCALARS}
        values |= {f"method/{name}": value for name, value in record.method.items()}
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, record.epoch)
        self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:  # which has a file and a thread
            self._writer.close()


VERSION = 1
"""The version of the content of checkpoints."""

STOP = 1
"""The request to save; a larger one is to stop because of a signal. The largest of all processes counts."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a run that do not change its numbers, up to rounding.

    Args:
        engine: How steps are run: auto, eager, compiled or graph.
        save_every: Seconds between checkpoints; there is one at the end and when it is stopped in any case.
        keep: How many checkpoints stay.
        deterministic: Algorithms that give the same bits every time, also on a GPU; slower there. On a CPU, one thread:
            the number of threads decides on rounding.
        teachers: Where the run of a recipe's teacher is looked for; None: among the folders beside the run's own.
    """

    engine: str = "auto"
    save_every: float = 60.0
    keep: int = 2
    deterministic: bool = False
    teachers: Path | None = None

    def __post_init__(self) -> None:
        require("save_every", self.save_every, least=0)
        require_count("keep", self.keep, least=1)


USUAL = Options()


@dataclass
class _Story:
    """The history of a run over all its starts."""

    records: list[Record] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def best(self) -> Record | None:
        return best_of(self.records)


def run(
    recipe: Recipe,
    folder: Path,
    dataset: Dataset,
    *,
    device: torch.device,
    world: World = ALONE,
    options: Options = USUAL,
    observer: Observer = SILENT,
) -> Result:
    """Train by `recipe` and write all results into `folder`; resume if an earlier start was interrupted.

    A finished run is not run again. Ctrl-C and SIGTERM save a checkpoint and raise StoppedError.
    """
    steps_of_recipe(recipe, dataset, world)  # an error, before anything is written, where its batch does not suit
    files = RunFolder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with files.lock() if world.leads else nullcontext():
        if world.leads:
            files.claim(recipe)
        finished: Result | None = world.from_leader(files.read_result())
        if finished is not None:
            _require_same_images(recipe, files, dataset)
            observer.says(f"{folder} is finished: last epoch {finished.last_accuracy:.2f} %")
            return finished
        on_device = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
        reporting = files.report_failure() if world.leads else nullcontext()
        with reporting, on_device, algorithms(options.deterministic, device):
            return _Run(recipe, files, dataset, device, world, options, observer).go()


def _require_same_images(recipe: Recipe, folder: RunFolder, dataset: Dataset) -> None:
    """Raise ValueError if the finished run was made with other images of one's own: recipes do not name them."""
    starts = folder.read_starts() if is_own(recipe.data) else []
    if starts and starts[-1].get("data", dataset.digest) != dataset.digest:
        raise ValueError(
            f"{folder} holds a finished run of this recipe with other images than those of {dataset.name} now: use "
            "another folder"
        )


class _Run:
    """One start of a run."""

    def __init__(
        self,
        recipe: Recipe,
        folder: RunFolder,
        dataset: Dataset,
        device: torch.device,
        world: World,
        options: Options,
        observer: Observer,
    ) -> None:
        self.folder, self.dataset, self.device = folder, dataset, device
        self.world, self.options, self.observer = world, options, observer
        teacher = find_teacher(recipe, options.teachers or folder.path.parent, dataset, device=device)
        self.teacher_sha256 = teacher and teacher.sha256
        self.training = Training(recipe, dataset, device=device, engine=options.engine, world=world, teacher=teacher)
        self.checkpoints = Checkpoints(folder.checkpoints, keep=options.keep)
        self.story = _Story()
        self.best_network: dict[str, Tensor] | None = None
        self.heard = Heard()
        self.consensus = RankConsensus(world, device)
        self.saved_at = self.started_at = time.monotonic()

    def go(self) -> Result:
        self._resume()
        if self.world.leads:
            self._write_beginning()
            self.observer.begins(self.training, self.story.records)
        with listen_for_stop() as self.heard:
            try:
                for record in self.training.run(self._after_step, self._keep_if_best):
                    self._take(record)
                    if self.training.epoch < self.training.recipe.epochs:  # else it is saved and finished at once
                        self._save_if_due()
                return self._finish()
            except RuntimeError as error:
                # Ctrl-C in a terminal also ends a compiler at work, and with it the step that waits for it.
                if not self.heard.number or isinstance(error, DivergedError):
                    raise
                raise StoppedError(self.heard.number, self.training.epoch, self.training.step, saved=False) from error

    def _take(self, record: Record) -> None:
        self.story.records.append(record)
        if self.world.leads:
            self.folder.append_record(record)
            self.observer.epoch_ended(record)

    def _keep_if_best(self, network: nn.Module, accuracy: float) -> None:
        best = self.story.best
        if best is None or accuracy > (best.deciding or 0.0):
            # In memory, and written with the next checkpoint: many epochs in a row may be the best so far.
            self.best_network = {name: value.clone() for name, value in network.state_dict().items()}

    def _after_step(self) -> None:
        if self.world.leads:
            self.observer.stepped(self.training)
        self._save_if_due()

    def _save_if_due(self) -> None:
        """Save if it is time or a signal came, and stop after a signal; all processes do so after the same step."""
        due = time.monotonic() - self.saved_at >= self.options.save_every
        request = STOP + self.heard.number if self.heard.number else int(due)
        request = self.consensus.largest(request, self.training.step)
        if request:
            self.save()
        if request > STOP:
            raise StoppedError(request - STOP, self.training.epoch, self.training.step)

    def save(self) -> None:
        """Write a checkpoint and the best network so far."""
        state = {
            **self._identity,
            "records": [asdict(record) for record in self.story.records],
            "seconds": self.story.seconds + time.monotonic() - self.started_at,
            "training": self.training.state_dict(),
        }
        if self.world.leads:
            self._write_best()
            self.checkpoints.save(state, epoch=self.training.epoch, step=self.training.step)
        self.saved_at = time.monotonic()

    def _write_best(self) -> None:
        best = self.story.best
        if self.best_network is not None and best is not None:
            self._write_network("best", self.best_network, best)
            self.best_network = None

    def _write_network(self, which: str, network: dict[str, Tensor], record: Record) -> None:
        write_network(self.folder.network_file(which), network, self.training.recipe, self.dataset, record)

    def _resume(self) -> None:
        found = None
        if self.world.leads:
            self.folder.remove_unfinished()
            saved = self.checkpoints.paths()
            found = self.checkpoints.newest(self.observer.says)
            if found is None and saved:
                self.observer.says(f"no checkpoint in {self.checkpoints.folder} is whole: starting from the beginning")
        path = self.world.from_leader(found and found[0])
        if path is None:
            return
        state = found[1] if found else load(path)
        self._check_state(path, state)
        self.training.load_state_dict(state["training"])
        self.story = _Story([Record(**record) for record in state["records"]], state["seconds"])

    @property
    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must have been written by to be resumed here."""
        return {
            "version": VERSION,
            "recipe": self.training.recipe.digest,
            "data": self.dataset.digest,
            "teacher": self.teacher_sha256,
        }

    def _check_state(self, path: Path, state: dict[str, Any]) -> None:
        for name, value in self._identity.items():
            if state.get(name) != value:
                raise ValueError(
                    f"the checkpoint {path} belongs to another run: its {name} is {state.get(name)}, this one's is "
                    f"{value}. Use another folder, or remove the checkpoints to start from the beginning"
                )

    def _write_beginning(self) -> None:
        self.folder.write_records(self.story.records)
        try:
            earlier = self.folder.read_starts()
        except ValueError as error:
            self.observer.says(f"{error}: it is begun anew")
            earlier = []
        here = {
            **environment(self.device),
            "processes": self.world.size,
            "engine": self.training.execution.mode.value,
            "deterministic": self.options.deterministic,
            "data": self.dataset.digest,
            "teacher": self.teacher_sha256,
            "from_epoch": self.training.epoch,
            "from_step": self.training.step,
        }
        self.folder.write_starts([*earlier, here])
        if self.training.execution.reason is not None:
            self.observer.says(self.training.execution.reason)

    def _finish(self) -> Result:
        self.save()
        last, best = self.story.records[-1], self.story.best
        # The last epoch is always tested.
        assert best is not None and best.test_accuracy is not None and last.test_accuracy is not None
        with self.training.exported() as model:
            if self.world.leads:
                self._write_network("last", model.state_dict(), last)
                self.folder.write_histogram(histogram([latent for _, latent in self.training.optimizer.latents()]))
        result = Result(
            last_accuracy=last.test_accuracy,
            best_accuracy=best.test_accuracy,
            best_epoch=best.epoch,
            epochs=len(self.story.records),
            seconds=self.story.seconds + time.monotonic() - self.started_at,
            last_sha256=self.world.from_leader(self.folder.network_sha256("last") if self.world.leads else None),
        )
        if self.world.leads:
            self.folder.write_result(result)
        return result
