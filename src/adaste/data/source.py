"""What is known of a data set before any file is read."""

from dataclasses import dataclass

from adaste._util.checks import require
from adaste.data.download import Download
from adaste.data.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set as published. What depends on the user's own files is None."""

    name: str
    title: str
    size: tuple[int, int, int] | None
    """Height, width and channels of an image."""
    classes: int | None
    train: int | None
    test: int | None
    mean: tuple[float, ...] | None
    """Per channel, on the scale 0..1. None: computed from the training images, as is `std`."""
    std: tuple[float, ...] | None
    layouts: tuple[Layout, ...]
    downloads: tuple[Download, ...] = ()
    home: str
    licence: str

    def __post_init__(self) -> None:
        if not self.layouts:
            raise ValueError(f"{self.name} needs at least one layout")
        for what in ("classes", "train", "test"):
            require(what, getattr(self, what), least=1, optional=True)
