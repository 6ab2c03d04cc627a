"""What the methods of digits.py reached: as plain data, as a table and as a picture."""

import statistics
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.table import Table

import adaste
from adaste.optim.summary import Summary

TEST_SIZE = 500  # images
CLASSES = 10


@dataclass(frozen=True)
class Outcome:
    """What one method reached.

    binary    whether its weights have one bit.
    settings  all that decides it, as plain data.
    accuracy  on the test images in percent, per seed and epoch.
    size      of its network.
    """

    name: str
    colour: str
    binary: bool
    settings: dict[str, Any]
    accuracy: tuple[tuple[float, ...], ...]
    size: Summary

    @property
    def last(self) -> list[float]:
        """The accuracy after the last epoch, per seed."""
        return [epochs[-1] for epochs in self.accuracy]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.last)

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; None for a single one."""
        return statistics.stdev(self.last) if len(self.last) > 1 else None

    @property
    def bits(self) -> float:
        """Bits per weight, as packed."""
        return 32 * self.size.packed_bytes / self.size.float_bytes

    def record(self) -> dict[str, Any]:
        """All of it, as plain data."""
        return {
            "name": self.name,
            **self.settings,
            "accuracy": {
                "mean": round(self.mean, 3),
                "spread": self.spread,
                "n": len(self.last),
                "per seed and epoch": [[round(value, 3) for value in epochs] for epochs in self.accuracy],
            },
            "bits per weight": round(self.bits, 3),
            "float32 bytes": self.size.float_bytes,
            "packed bytes": self.size.packed_bytes,
        }


def table(outcomes: list[Outcome]) -> Table:
    """The last epoch of every method."""
    count = len(outcomes[0].last)
    caption = f"last epoch, {TEST_SIZE} test images; mean ± standard deviation over n = {count} seeds"
    result = Table(title="Handwritten digits", caption=caption)
    result.add_column("method", no_wrap=True)
    for heading in ("test\naccuracy %", "bits per\nweight", "float32\nbytes", "packed\nbytes"):  # 80 columns in all
        result.add_column(heading, justify="right", no_wrap=True)
    for outcome in outcomes:
        result.add_row(
            outcome.name,
            f"{outcome.mean:.2f}" + (f" ± {outcome.spread:.2f}" if outcome.spread is not None else ""),
            f"{outcome.bits:.3g}",
            f"{outcome.size.float_bytes:,}",
            f"{outcome.size.packed_bytes:,}",
        )
    return result


def picture(outcomes: list[Outcome]) -> Figure:
    """Left: what every method reached, epoch by epoch. Right: the forward maps."""
    figure = Figure(figsize=(12.5, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.45, 1))
    draw_accuracy(left, outcomes)
    draw_maps(right)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(axes.get_title(loc="left"), loc="left", fontsize=11.5, fontweight="bold")
    return figure


def draw_accuracy(axes: Axes, outcomes: list[Outcome]) -> None:
    """Accuracy on an axis that is logarithmic in the error, so that 98 and 99 lie apart and chance is still seen."""
    epochs = range(1, len(outcomes[0].accuracy[0]) + 1)
    one_image = 100 / TEST_SIZE  # keeps the logarithm of a perfect result finite
    axes.set_yscale("function", functions=(lambda y: -_log10(100 + one_image - y), lambda z: 100 + one_image - 10**-z))
    for outcome in outcomes:
        mean = [statistics.fmean(values) for values in zip(*outcome.accuracy, strict=True)]
        axes.plot(epochs, mean, **_style(outcome))
    axes.axhline(100 / CLASSES, color="grey", linestyle=":", linewidth=1)
    axes.text(epochs[0], 100 / CLASSES, " chance", color="grey", va="bottom", fontsize=9)
    axes.set_yticks([10, 50, 80, 90, 95, 98, 99, 99.5], minor=False)
    axes.set_yticks([], minor=True)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(5, 99.65)
    axes.grid(axis="y", color="0.92")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("epoch")
    axes.set_ylabel("test accuracy %, weights as exported")
    axes.set_title(f"1-bit weights on handwritten digits (mean of n = {len(outcomes[0].last)})", loc="left")
    _label_ends(axes, outcomes, last_epoch=epochs[-1])


def _log10(x: Any) -> Any:
    return torch.as_tensor(x, dtype=torch.float64).clamp(min=1e-9).log10().numpy()


def _style(outcome: Outcome) -> dict[str, Any]:
    """Reference lines are dashed, binary methods solid."""
    dashes = "-" if outcome.binary else "--"
    return {"color": outcome.colour, "linewidth": 1.6, "linestyle": dashes}


def _label_ends(axes: Axes, outcomes: list[Outcome], last_epoch: int) -> None:
    """Names to the right of the last points, evenly spaced in the order of the points so that none overlap."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.mean)
    for place, outcome in enumerate(ordered):
        axes.annotate(
            f"{outcome.name}  {outcome.mean:.1f}",
            xy=(last_epoch, outcome.mean),
            xytext=(1.06, 1 - 0.062 * (len(ordered) - place)),
            textcoords="axes fraction",
            color=outcome.colour,
            va="center",
            fontsize=9.5,
            arrowprops={
                "arrowstyle": "-",
                "color": outcome.colour,
                "linewidth": 0.8,
                "relpos": (0, 0.5),
                "shrinkB": 0,
            },
        )


def draw_maps(axes: Axes) -> None:
    """The paper's figure of forward maps, in two halves: the double well jumps at zero."""
    maps = (
        (adaste.Tanh(), "tanh", "#e69f00", "-"),
        (adaste.HardTanh(), "hard tanh", "#009e73", "-"),
        (adaste.DoubleWell(mu=1.0), "AdaSTE, μ = 1", "#f4a3a0", "-"),
        (adaste.DoubleWell(mu=10.0), "AdaSTE, μ = 10", "#e0524f", "-"),
        (adaste.DoubleWell(mu=100.0), "AdaSTE, μ = 100", "#8c0014", (0, (4, 2))),
    )
    size = torch.linspace(0, 2, 201)
    for forward, name, colour, dashes in maps:
        height = torch.as_tensor(forward.magnitude(size)).expand_as(size)
        axes.plot(size, height, color=colour, linestyle=dashes, linewidth=1.8, label=name)
        axes.plot(-size, -height, color=colour, linestyle=dashes, linewidth=1.8)
    axes.set_xlabel("latent weight θ")
    axes.set_ylabel("weight s(θ)")
    axes.set_title(r"Forward maps (AdaSTE with $\alpha$ = 0.01)", loc="left")
    axes.grid(color="0.94")
    axes.set_yticks([-1, -0.5, 0, 0.5, 1])
    axes.legend(loc="lower right", bbox_to_anchor=(1.03, 0.05), frameon=False, fontsize=9, handlelength=1.6)
