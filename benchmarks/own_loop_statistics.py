"""What a validation after every epoch shows with running and with re-estimated BatchNorm statistics, in an own loop.

    python benchmarks/own_loop_statistics.py --seeds 5 --output FILE.json

Runs the program that docs/own-loop.md prints, to the letter, once per seed. Where it tests, the same weights are also
tested with the running statistics of training.
"""

import argparse
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import torch

import adaste
from adaste._util.files import write_json
from adaste.runs.environment import environment

PAGE = Path(__file__).parents[1] / "docs" / "own-loop.md"


class TestedTwice(adaste.LatentOptimizer):
    """Tests with running statistics before it lets the program, whose `names` these are, test with others."""

    def __init__(self, *arguments: Any, names: dict[str, Any], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._rows: list[dict[str, float]] = []
        self._accuracy = names["accuracy"]
        names["rows"] = self._rows

    @contextmanager
    def binarized(self, model: Any = None, **options: Any) -> Iterator[None]:
        if not options:
            with super().binarized(model):
                yield
            return
        with super().binarized():
            running = self._accuracy(model)
        began = time.perf_counter()
        with super().binarized(model, **options):
            seconds = time.perf_counter() - began
            self._rows.append({"running": running, "reestimated": self._accuracy(model), "estimation_seconds": seconds})
            yield


def epochs_of(program: str, seed: int) -> list[dict[str, float]]:
    """Both accuracies in percent after every epoch, and the seconds that re-estimating took."""
    torch.manual_seed(seed)
    names: dict[str, Any] = {"__name__": "program"}
    usual = adaste.LatentOptimizer
    adaste.LatentOptimizer = partial(TestedTwice, names=names)
    try:
        with redirect_stdout(None):
            exec(program, names)
    finally:
        adaste.LatentOptimizer = usual
    rows: list[dict[str, float]] = names["rows"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="runs of the program (%(default)s)")
    parser.add_argument("--output", type=Path, help="write a record, as JSON")
    arguments = parser.parse_args()
    (program, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    runs = []
    for seed in range(arguments.seeds):
        rows = epochs_of(program, seed)
        runs.append({"seed": seed, "epochs": rows})
        for kind in ("running", "reestimated"):
            print(f"seed {seed}, {kind:11}:", *(f"{row[kind]:.1f}" for row in rows), flush=True)
    if arguments.output:
        record = {"environment": environment(torch.device("cpu")), "program": program, "runs": runs}
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
