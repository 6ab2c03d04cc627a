"""Trained networks with one-bit weights: packed files, each with a card. Needs no other package.

path = adaste_zoo.path("digits-vgg-small")  # adaste.load_packed and adaste_runtime.load read it
for card in adaste_zoo.cards():
    print(card.name, card.accuracy, card.bytes)
"""

import hashlib
import json
from dataclasses import dataclass, fields
from pathlib import Path

__all__ = ["Card", "cards", "path"]

__version__ = "0.1.0"

NETWORKS = Path(__file__).parent / "networks"
"""The folder of files and cards: NAME.safetensors and NAME.json."""


@dataclass(frozen=True)
class Card:
    """What is known of a network. Accuracies are in percent, on all test images of the data.

    Args:
        name: That of the file.
        data: The data set.
        classes: Their names, in the order of the outputs.
        recipe: Digest of the recipe by which it was trained; the folder of the run in the records ends in it.
        recorded: The accuracy of this network in the record of its run, after the last epoch.
        seeds: The same of all runs of the recipe, which differ in the seed alone.
        float32: The accuracy of the file with adaste-runtime, with float32 activations.
        int8: The same with 8-bit activations.
        images: Test images with which the file was checked.
        checked: Day of the check.
        bytes: Size of the file.
        sha256: Of the file.
    """

    name: str
    data: str
    classes: tuple[str, ...]
    recipe: str
    recorded: float
    seeds: tuple[float, ...]
    float32: float
    int8: float
    images: int
    checked: str
    bytes: int
    sha256: str

    @property
    def accuracy(self) -> float:
        """The mean over the seeds."""
        return sum(self.seeds) / len(self.seeds)


def cards() -> list[Card]:
    """Return the cards of all networks, by name.

    Raises:
        ValueError: A card is damaged.
    """
    return [_read(found) for found in sorted(NETWORKS.glob("*.json"))]


def path(name: str) -> Path:
    """Return the file of a network.

    Raises:
        ValueError: There is no such network, or the file is not the one that its card describes.
    """
    known = {card.name: card for card in cards()}
    if name not in known:
        raise ValueError(f"the zoo has no network {name!r}; it has {', '.join(known) or 'none'}")
    found = NETWORKS / f"{name}.safetensors"
    content = found.read_bytes() if found.is_file() else b""
    if hashlib.sha256(content).hexdigest() != known[name].sha256:
        raise ValueError(
            f"{found} is missing or not the file that its card describes: install the package adaste-zoo again"
        )
    return found


def _read(found: Path) -> Card:
    try:
        plain = json.loads(found.read_text(encoding="utf-8"))
        wanted = {field.name for field in fields(Card)}
        if not isinstance(plain, dict) or set(plain) != wanted:
            raise ValueError(f"it must be an object with {', '.join(sorted(wanted))}")
        return Card(**{**plain, "classes": tuple(plain["classes"]), "seeds": tuple(plain["seeds"])})
    except (ValueError, TypeError) as error:
        raise ValueError(f"the card {found} is damaged: {error}") from error
