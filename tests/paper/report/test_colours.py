"""The colours of curves stay apart and stay visible, for eyes of every kind."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import adaste

COLOURS = (Path(adaste.__file__).parent / "paper" / "report" / "assets" / "colours.css").read_text()

# What is left of linear red, green and blue (Machado, Oliveira and Fernandes 2009, complete deficiencies).
EYES = {
    "all cones": np.eye(3),
    "no red cones": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "no green cones": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "no blue cones": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def themes() -> dict[str, dict[str, np.ndarray]]:
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in COLOURS.split("@media screen"))
    return {
        name: {key: linear(colour) for key, colour in colours.items()}
        for name, colours in (("light", light), ("dark", dark))
    }


def linear(colour: str) -> np.ndarray:
    shares = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def contrast(one: np.ndarray, other: np.ndarray) -> float:
    low, high = sorted(float(np.dot([0.2126, 0.7152, 0.0722], colour)) + 0.05 for colour in (one, other))
    return high / low


def seen(colour: np.ndarray, eye: str) -> np.ndarray:
    """In the space CIELAB, where distances are as large as they look."""
    xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(xyz @ np.clip(EYES[eye] @ colour, 0, 1) / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("eye", EYES)
def test_no_two_curves_look_alike(theme: str, eye: str) -> None:
    slots = [seen(colour, eye) for name, colour in themes()[theme].items() if name.startswith("slot-")]
    assert len(slots) == 7
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(slots, 2)) > 18


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_curves_and_texts_stand_out(theme: str) -> None:
    colours = themes()[theme]
    for name, colour in colours.items():
        if name.startswith("slot-"):
            assert contrast(colour, colours["surface"]) >= 2.95, name
    for text, ground in itertools.product(("ink", "muted", "accent", "above", "below"), ("paper", "surface", "sunken")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
