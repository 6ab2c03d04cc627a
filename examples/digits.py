"""Nine ways to train one small network with one-bit weights, on real handwritten digits, in about a minute.

Data: the 1,797 8x8 images that come with scikit-learn. All methods share the network, the initial weights, the order
of the batches, the number of epochs and the way they are tested: with the weights they would be exported with, after
the last epoch. They differ in one row of `METHODS`.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR

import adaste
from adaste.inspection import Summary, inspect_model
from adaste.schedules import describe

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
except ImportError as error:
    sys.exit(f"The demonstration needs {error.name}, which is not installed: pip install 'adaste[demo]'")

BATCH = 64
TEST_SIZE = 500
CLASSES = 10


@dataclass(frozen=True)
class Digits:
    """Images (n, 1, 8, 8) with values around zero, and labels."""

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class Plan:
    """What a schedule needs to know about the training it belongs to."""

    epochs: int
    steps_per_epoch: int
    train_size: int

    def rise(self, start: float, stop: float) -> adaste.Geometric:
        """Multiplied by the same factor after every epoch; the last epoch is trained at `stop`."""
        return adaste.Geometric(start=start, stop=stop, length=max(1, self.epochs - 1), every=self.steps_per_epoch)


@dataclass(frozen=True)
class Method:
    """One row of the comparison."""

    name: str
    colour: str
    estimator: Callable[[Plan], adaste.Estimator]
    base: "partial[Optimizer]"
    averaging: float = 0.0


# Rates and annealing were chosen on 400 of the training images, held out for that, and never on the test images.
METHODS = (
    Method(
        "full precision",
        "#000000",
        estimator=lambda plan: adaste.FullPrecision(),
        base=partial(SGD, lr=0.1, momentum=0.9),
    ),
    Method(
        "BinaryConnect",
        "#56b4e9",
        estimator=lambda plan: adaste.BinaryConnect(),
        base=partial(Adam, lr=0.01),
    ),
    Method(
        "ProxQuant",
        "#009e73",
        # A large rate: with a small one the pull outgrows the gradient and no sign changes after a few epochs.
        estimator=lambda plan: adaste.ProxQuant(strength=0.03),
        base=partial(SGD, lr=100.0, momentum=0.9),
    ),
    Method(
        "PMF",
        "#a6761d",
        estimator=lambda plan: adaste.PMF(beta=plan.rise(10.0, 1000.0)),
        base=partial(Adam, lr=0.01),
    ),
    Method(
        "MD-tanh-s",
        "#e69f00",
        estimator=lambda plan: adaste.MirrorDescent(beta=plan.rise(10.0, 1000.0)),
        base=partial(Adam, lr=0.1),
    ),
    Method(
        "BayesBiNN",
        "#cc79a7",
        estimator=lambda plan: adaste.BayesBiNN(train_size=10.0 * plan.train_size),
        base=partial(SGD, lr=0.03),
    ),
    Method(
        "straight-through",
        "#0072b2",
        estimator=lambda plan: adaste.StraightThrough(decay=1.0),
        base=partial(SGD, lr=0.1),
    ),
    # AdaSTE's printed rule sees an averaged gradient, for under the noise of single batches every latent shrinks to
    # zero. The average takes the place of momentum.
    Method(
        "AdaSTE",
        "#f0746e",
        estimator=lambda plan: adaste.AdaSTE(mu=100.0),
        base=partial(SGD, lr=30.0),
        averaging=0.985,
    ),
    Method(
        "AdaSTE, annealed",
        "#b2001d",
        estimator=lambda plan: adaste.AdaSTE(mu=plan.rise(1.0, 100.0)),
        base=partial(SGD, lr=10.0),
        averaging=0.985,
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What one method reached: test accuracy in percent, per seed and epoch."""

    method: Method
    estimator: adaste.Estimator
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


def digits() -> Digits:
    """The images, split once and for all with equal shares of every class."""
    images, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_SIZE, stratify=labels, random_state=0
    )
    return Digits(_images(train), torch.tensor(train_labels), _images(test), torch.tensor(test_labels))


def _images(pixels: Any) -> Tensor:
    return torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1


def network(seed: int) -> nn.Module:
    """Three convolutions and a linear layer, without biases: every parameter is a weight that becomes binary.

    As in the paper BatchNorm has no parameters and stands behind the logits, too. Training never looks at its running
    statistics; with momentum 1 they are those of the last batch, so one pass over the training images sets them.
    """
    torch.manual_seed(seed)
    return nn.Sequential(
        *_convolution(1, 16, stride=1),
        *_convolution(16, 32, stride=2),
        *_convolution(32, 32, stride=2),
        nn.Flatten(),
        nn.Linear(32 * 2 * 2, CLASSES, bias=False),
        nn.BatchNorm1d(CLASSES, affine=False, momentum=1.0),
    )


def _convolution(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs, affine=False, momentum=1.0),
        nn.ReLU(),
    ]


def train(
    method: Method, plan: Plan, data: Digits, seed: int, after_epoch: Callable[[], None]
) -> tuple[list[float], Summary]:
    """Train one network; its test accuracy after every epoch, and its size."""
    model = network(seed)
    optimizer = adaste.LatentOptimizer(
        adaste.binary_weights(model), base=method.base, estimator=method.estimator(plan), averaging=method.averaging
    )
    rate = CosineAnnealingLR(optimizer, T_max=plan.epochs)
    order = torch.Generator().manual_seed(seed)
    accuracy = []
    for _ in range(plan.epochs):
        for batch in torch.randperm(plan.train_size, generator=order).split(BATCH)[: plan.steps_per_epoch]:
            optimizer.zero_grad()
            cross_entropy(model(data.images[batch]), data.labels[batch]).backward()
            optimizer.step()
        rate.step()
        accuracy.append(evaluate(model, optimizer, data))
        after_epoch()
    return accuracy, inspect_model(model, optimizer)


@torch.no_grad()
def evaluate(model: nn.Module, optimizer: adaste.LatentOptimizer, data: Digits) -> float:
    """Test accuracy in percent with the weights of the export.

    BatchNorm's statistics are taken anew with these weights: those of training belong to weights that may still have
    been soft.
    """
    with optimizer.binarized():
        model(data.images)
        model.eval()
        correct = model(data.test_images).argmax(dim=1) == data.test_labels
        model.train()
    return 100 * correct.double().mean().item()


@contextmanager
def one_thread() -> Iterator[None]:
    """Tensors this small are computed faster by one thread than several can agree on who does what."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def compare(plan: Plan, data: Digits, seeds: range, progress: Progress) -> list[Outcome]:
    """Train with every method and every seed."""
    task = progress.add_task("", total=len(METHODS) * len(seeds) * plan.epochs)
    outcomes = []
    for method in METHODS:
        progress.update(task, description=method.name)
        runs = [train(method, plan, data, seed, after_epoch=lambda: progress.advance(task)) for seed in seeds]
        accuracy = tuple(tuple(epochs) for epochs, _ in runs)
        outcomes.append(Outcome(method, method.estimator(plan), accuracy, size=runs[-1][1]))
    return outcomes


def record(outcomes: list[Outcome], plan: Plan, seeds: range, seconds: float) -> dict[str, Any]:
    """All that was measured and all that decides it, as plain data."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "environment": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
        },
        "data": {"name": "scikit-learn digits", "train": plan.train_size, "test": TEST_SIZE},
        "training": {"epochs": plan.epochs, "batch": BATCH, "seeds": list(seeds), "learning rate": "cosine to zero"},
        "methods": [_record_of(outcome) for outcome in outcomes],
    }


def _record_of(outcome: Outcome) -> dict[str, Any]:
    base = outcome.method.base
    return {
        "name": outcome.method.name,
        "estimator": describe(outcome.estimator),
        "base": {"kind": base.func.__name__, **base.keywords},
        "averaging": outcome.method.averaging,
        "accuracy": {
            "mean": round(outcome.mean, 3),
            "spread": outcome.spread,
            "n": len(outcome.last),
            "per seed and epoch": [[round(value, 3) for value in epochs] for epochs in outcome.accuracy],
        },
        "bits per weight": round(outcome.bits, 3),
        "float32 bytes": outcome.size.float_bytes,
        "packed bytes": outcome.size.packed_bytes,
    }


def table(outcomes: list[Outcome]) -> Table:
    """The last epoch of every method."""
    count = len(outcomes[0].last)
    caption = f"last epoch, {TEST_SIZE} test images; mean ± standard deviation over n = {count} seeds"
    result = Table(title="Handwritten digits", caption=caption)
    result.add_column("method", no_wrap=True)
    for heading in ("test accuracy %", "bits per weight", "float32 bytes", "packed bytes"):
        result.add_column(heading, justify="right")
    for outcome in outcomes:
        result.add_row(
            outcome.method.name,
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
    dashes = "-" if outcome.estimator.binary else "--"
    return {"color": outcome.method.colour, "linewidth": 1.6, "linestyle": dashes}


def _label_ends(axes: Axes, outcomes: list[Outcome], last_epoch: int) -> None:
    """Names to the right of the last points, evenly spaced in the order of the points so that none overlap."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.mean)
    for place, outcome in enumerate(ordered):
        axes.annotate(
            f"{outcome.method.name}  {outcome.mean:.1f}",
            xy=(last_epoch, outcome.mean),
            xytext=(1.06, 1 - 0.062 * (len(ordered) - place)),
            textcoords="axes fraction",
            color=outcome.method.colour,
            va="center",
            fontsize=9.5,
            arrowprops={
                "arrowstyle": "-",
                "color": outcome.method.colour,
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


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside `path` and rename, so that no reader ever finds half a file."""
    unfinished = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train one small network on digits with every method and compare.")
    parser.add_argument("--epochs", type=_count, default=20, help="passes over the training images (%(default)s)")
    parser.add_argument("--seeds", type=_count, default=3, help="networks per method (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results (%(default)s)")
    chosen = parser.parse_args(given)
    try:
        chosen.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: {chosen.out} is not a folder and cannot become one ({error.strerror})")
    return chosen


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1 is needed, got {text!r}")
    return int(text)


def main(given: list[str] | None = None) -> None:
    chosen = arguments(given)
    console = Console()
    begin = time.perf_counter()
    data = digits()
    plan = Plan(chosen.epochs, steps_per_epoch=len(data.labels) // BATCH, train_size=len(data.labels))
    seeds = range(chosen.seeds)
    columns = (TextColumn("{task.description:16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with one_thread():
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            outcomes = compare(plan, data, seeds, progress)
        seconds = time.perf_counter() - begin
        results = json.dumps(record(outcomes, plan, seeds, seconds), indent=1)
    figure = picture(outcomes)
    for ending in ("png", "svg"):
        replace_file(chosen.out / f"digits.{ending}", partial(figure.savefig, format=ending, dpi=150))
    replace_file(chosen.out / "digits.json", lambda path: path.write_text(results + "\n", encoding="utf-8"))
    console.print(table(outcomes))
    console.print(f"Trained {len(outcomes) * len(seeds)} networks for {plan.epochs} epochs in {seconds:.0f} s.")
    console.print(f"Picture: {chosen.out / 'digits.png'} (and .svg); numbers: {chosen.out / 'digits.json'}")


if __name__ == "__main__":
    main()
