"""Bring the tables and pictures of README and docs up to date with results/: python docs/update_results.py

A table stands between the lines `<!-- results: TABLE FAMILY EPOCHS PLACE... -->` and `<!-- end of results -->` and has
runs of so many epochs only. `beside-real` is Table 1 with the rows of the long runs alone; `flips FAMILY EPOCHS PLACE`
has the signs that flip, method by method. Or it begins with `<!-- results: inference RECORD -->` (latencies of
benchmarks/inference.py), `starts RECORD` (its starts and memory) or `summary RECORD...` (batch 1 and one thread).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from adaste._util.files import write_atomically
from adaste.paper.collection import Run, collect
from adaste.paper.figures import BESIDE_REAL
from adaste.paper.report.curves import TITLES
from adaste.paper.report.texts.markdown import grid_of_family
from adaste.paper.setups import place
from adaste.paper.tables import TABLES, Table, family

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("reproducing", "inference")))
PICTURES = ("overview-cifar10-resnet18", "figure3-released", "long-runs-ours")
MARKED = re.compile(r"(<!-- results: ([^>]*) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def record(name: str) -> dict[str, Any]:
    """What benchmarks/inference.py has written."""
    return json.loads((ROOT / "results" / "benchmarks" / f"inference-{name}.json").read_text())


def grid(lines: Sequence[Sequence[str]]) -> str:
    """A table of which the first line is the head."""
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rest]) + "\n"


def factor(times: dict[str, dict[str, float]], ours: str, peers: Sequence[str]) -> str:
    """How many times as fast as the best of the others, by minima and by medians."""
    return " / ".join(f"{min(times[peer][of] for peer in peers) / times[ours][of]:.2f}" for of in ("min", "median"))


def latencies(name: str) -> str:
    """Milliseconds of every engine, a line for each size, batch and number of threads."""
    rows = record(name)["rows"]
    engines = list(rows[0]["engines"])
    lines = [["size, batch, threads", *engines, "float32", "8-bit"]]
    for row in rows:
        times = row["engines"]
        cells = [f"{times[engine]['min']:.2f} / {times[engine]['median']:.2f}" for engine in engines]
        factors = [
            factor(times, "adaste", ("ONNX Runtime", "OpenVINO")),
            factor(times, "adaste int8", ("ONNX Runtime int8", "OpenVINO int8")),
        ]
        lines.append([f"{row['size']}, {row['batch']}, {row['threads']}", *cells, *factors])
    return grid(lines)


def starts(name: str) -> str:
    """Seconds from the start of a process to its first result, and the most memory it had."""
    lines = [["engine", "32x32, s", "MiB", "224x224, s", "MiB"]]
    small, large = record(name)["processes"].values()
    for engine in small:
        cells = []
        for each in (small[engine], large[engine]):
            cells += [f"{each['min']:.3f} / {each['median']:.3f}", f"{each['peak_bytes'] / 2**20:.0f}"]
        lines.append([engine, *cells])
    return grid(lines)


def summary(*names: str) -> str:
    """Milliseconds of every engine with batch 1 and one thread, a column for each record and size."""
    columns = {}
    for name in names:
        for row in sorted(record(name)["rows"], key=lambda row: row["size"]):
            if (row["batch"], row["threads"]) == (1, 1):
                columns.setdefault(f"{name.removesuffix('-again')}, {row['size']}x{row['size']}", row["engines"])
    lines = [["", *columns]]
    for engine in next(iter(columns.values())):
        lines.append(
            [engine, *(f"{times[engine]['min']:.2f} / {times[engine]['median']:.2f}" for times in columns.values())]
        )
    return grid(lines)


def of_the_paper(table: Table, runs: Sequence[Run], chosen_family: str, *places: str) -> str:
    """A table of adaste.paper with the runs of one family, at these places or at all it has."""
    chosen = replace(table, places=tuple(place(one) for one in places)) if places else table
    return grid_of_family(chosen, family(chosen_family), runs)


def flips(runs: Sequence[Run], chosen_family: str, place_name: str) -> str:
    """The share of signs that flip in the middle of a run and at its end, means over seeds, the best method first."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        for address in run.addresses:
            if (address.family, address.place) == (chosen_family, place_name) and run.records[-1].flipped is not None:
                found.setdefault(address.method, []).append(run)
    (length,) = {run.recipe.epochs for seeds in found.values() for run in seeds}
    middle = length // 2
    rows = []
    for method, seeds in found.items():
        last = [run.records[-1] for run in seeds]
        test = fmean(record.test_accuracy for record in last)
        training = fmean(record.train_accuracy for record in last)
        shares = [100 * fmean(run.records[epoch - 1].flipped for run in seeds) for epoch in (middle, length)]
        cells = [f"{value:.2f} %" for value in (test, training, *shares)]
        rows.append((test, [TITLES[method], str(len(seeds)), *cells]))
    head = ["method", "n", "test", "training", f"flip in epoch {middle}", f"in epoch {length}"]
    return grid([head, *(row for _, row in sorted(rows, reverse=True))])


MEASURED = {"inference": latencies, "starts": starts, "summary": summary}
LONG = replace(TABLES["table1"], rows=tuple(row for row in TABLES["table1"].rows if row.method in BESIDE_REAL))
OF_RUNS = {
    "flips": flips,
    "beside-real": partial(of_the_paper, LONG),
    **{name: partial(of_the_paper, table) for name, table in TABLES.items()},
}


def updated(text: str, runs: tuple[Run, ...]) -> str:
    """The text with every table made anew."""

    def table(found: re.Match[str]) -> str:
        name, *words = found[2].split()
        if name in MEASURED:
            return f"{found[1]}\n{MEASURED[name](*words)}\n{found[3]}"
        chosen_family, epochs, *places = words
        chosen_runs = [run for run in runs if run.recipe.epochs == int(epochs)]
        return f"{found[1]}\n{OF_RUNS[name](chosen_runs, chosen_family, *places)}\n{found[3]}"

    return MARKED.sub(table, text)


def main() -> None:
    """Write what has changed."""
    from adaste.paper.drawing import saved
    from adaste.paper.report.canvas import LOOK
    from adaste.paper.report.drawings import drawings

    runs = collect(ROOT / "results").runs
    for page in PAGES:
        write_atomically(page, updated(page.read_text(), runs).encode())
    for name, drawing in drawings(runs):
        if name in PICTURES:
            write_atomically(ROOT / "docs" / "pictures" / f"{name}.svg", saved(drawing, "svg", LOOK))


if __name__ == "__main__":
    main()
