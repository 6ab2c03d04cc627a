"""Who watches a run."""

from typing import Protocol

from adaste.training.records import Record
from adaste.training.trainer import Training


class Observer(Protocol):
    """Who watches a run. All methods are called in the process that leads."""

    def begins(self, training: Training, records: list[Record]) -> None:
        """Training is about to begin, or to go on after these records."""

    def stepped(self, training: Training) -> None:
        """A step was made; on a GPU, asked for."""

    def epoch_ended(self, record: Record) -> None:
        """An epoch is over."""

    def says(self, text: str) -> None:
        """Something worth a line."""


class Silent:
    """An observer who does nothing."""

    def begins(self, training: Training, records: list[Record]) -> None: ...
    def stepped(self, training: Training) -> None: ...
    def epoch_ended(self, record: Record) -> None: ...
    def says(self, text: str) -> None: ...


SILENT = Silent()
