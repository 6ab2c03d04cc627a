"""A run's numbers as TensorBoard scalars."""

from pathlib import Path
from typing import Any

from adaste._util.extras import needs
from adaste.training.records import Record
from adaste.training.trainer import Training

TESTS = ("test_loss", "test_accuracy", "holdout_accuracy")
OTHERS = ("loss", "train_accuracy", "lr", "flipped", "latent", "images_per_second")


class TensorBoard:
    """An observer that writes a scalar per number and epoch into `folder`; needs the package tensorboard."""

    def __init__(self, folder: Path) -> None:
        with needs("tensorboard", extra="tensorboard", purpose="an observer for TensorBoard"):
            from torch.utils.tensorboard import SummaryWriter
        self._folder, self._make = folder, SummaryWriter
        self._writer: Any = None

    def begins(self, training: Training, records: list[Record]) -> None:
        # What an interrupted run wrote after its last checkpoint is purged: those epochs come again.
        self._writer = self._make(str(self._folder), purge_step=len(records))

    def stepped(self, training: Training) -> None: ...

    def epoch_ended(self, record: Record) -> None:
        values = {name: getattr(record, name) for name in (*OTHERS, *TESTS)}
        values |= {f"method/{name}": value for name, value in record.method.items()}
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, record.epoch)
        self._writer.flush()

    def says(self, text: str) -> None: ...
