"""Observers of a run, and one that writes TensorBoard's files."""

from pathlib import Path
from typing import Any, Protocol

from adaste._util.packages import require_package
from adaste.training.records import Record
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
    """An observer that writes a scalar per number and epoch into `folder`; needs the package tensorboard."""

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
