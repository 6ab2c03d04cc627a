"""Bring the tables and pictures of README and docs up to date with results/: python docs/update_results.py

A table stands between the lines `<!-- results: NAME ARGUMENT... -->` and `<!-- end of results -->`. NAME is one of

- a table of the paper, FAMILY EPOCHS SETUP...: the runs of that family with so many epochs. `beside-real` is Table 1
  with the rows of the long runs alone, `flips` has the signs that flip, method by method. `deployed FAMILY EPOCHS SETUP
  SIZE RECORD...` has real and one-bit weights side by side: accuracy, bytes and milliseconds;
- `inference RECORD` (latencies of benchmarks/inference.py), `starts RECORD` (its starts and memory) or
  `summary RECORD...` (batch 1 and one thread);
- `known-models RECORD` (benchmarks/known_models.py) and `instructions RECORD...` (benchmarks/instructions.py);
- `setup RECORD FIELD...` (benchmarks/setup_on_digits.py: all methods, or those of which one of these fields is varied)
  and `first-steps RECORD NETWORK` of the same;
- `study FILE`: the runs of a study file, a line for each recipe with its differences from the named one; `best`: those
  of the recipes named best, beside published numbers, and `published`: those of AdaSTE under the common recipe;
- `time RECORD` (benchmarks/time_to_accuracy.py) and `zoo` (benchmarks/zoo.py);
- `language PART`: runs of benchmarks/language: the `final` ones, all `held-out` ones, the larger model (`code`), files
  in llama.cpp (`engines`), or a `sentence`;
- `demo`, `step`, `training`, `statistics`: the records of `make demo`, benchmarks/step.py, training.py and
  own_loop_statistics.py.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from adaste._util.files import write_atomically
from adaste._util.serial import brief
from adaste.cli.recipe_args import find_recipes
from adaste.paper.cells import OverSeeds
from adaste.paper.families import setup
from adaste.paper.figures import BESIDE_REAL, TITLES
from adaste.paper.index import Run, collect
from adaste.paper.report.texts import format_summary as cell_summary
from adaste.paper.report.texts import grid_of_family
from adaste.paper.tables import TABLES, Table, family
from adaste.recipes.distillation import Distillation
from adaste.recipes.presets import BEST
from adaste.recipes.presets import recipe as named_recipe
from adaste.recipes.recipe import Recipe

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # benchmarks is a folder of the checkout, not of the installation

from benchmarks.language import records as language_records  # noqa: E402

PAGES = (
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "demonstration",
            "own-loop",
            "defaults",
            "language-models",
            "method",
            "speed",
            "deployment",
            "inference",
            "reproducing",
            "short-runs",
            "recipe",
            "web",
        )
    ),
    ROOT / "zoo" / "README.md",
)
LANGUAGE = ROOT / "results" / "language"
PICTURES = ("overview-cifar10-resnet18", "figure3-released", "long-runs-ours")
MACHINES = {"xeon-16": "Xeon", "epyc": "EPYC"}
MARKED = re.compile(r"(<!-- results: ([^>]*) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def read(name: str) -> dict[str, Any]:
    """Return a record of results/."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def record(name: str) -> dict[str, Any]:
    """Return a record of benchmarks/inference.py."""
    return read(f"benchmarks/inference-{name}")


def grid(lines: Sequence[Sequence[str]]) -> str:
    """A table of which the first line is the head."""
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rest]) + "\n"


def pair(times: dict[str, float], name: str = "", digits: int = 2) -> str:
    """Return minimum and median."""
    return f"{times[f'{name}min']:.{digits}f} / {times[f'{name}median']:.{digits}f}"


def factor(times: dict[str, dict[str, float]], ours: str, peers: Sequence[str]) -> str:
    """How many times as fast as the best of the others that were there, by minima and by medians."""
    there = [times[peer] for peer in peers if peer in times]
    return " / ".join(f"{min(each[of] for each in there) / times[ours][of]:.2f}" for of in ("min", "median"))


def latencies(name: str) -> str:
    """Milliseconds of every engine, a line for each size, batch and number of threads."""
    rows = record(name)["rows"]
    engines = list(rows[0]["engines"])
    lines = [["size, batch, threads", *engines, "float32", "8-bit"]]
    for row in rows:
        times = row["engines"]
        cells = [pair(times[engine]) for engine in engines]
        factors = [
            factor(times, "adaste", ("ONNX Runtime", "OpenVINO")),
            factor(times, "adaste int8", ("ONNX Runtime int8", "OpenVINO int8")),
        ]
        lines.append([f"{row['size']}, {row['batch']}, {row['threads']}", *cells, *factors])
    return grid(lines)


def known_models(name: str) -> str:
    """Return milliseconds of benchmarks/known_models.py, and how large the files are."""
    lines = [["network", "threads", "adaste", "ONNX Runtime", "times as fast", "MB, adaste", "MB, ONNX"]]
    for row in read(f"benchmarks/known-models-{name}")["rows"]:
        times = row["engines"]
        files = [f"{row['bytes'][engine] / 1e6:.2f}" for engine in times]
        cells = [pair(times[engine]) for engine in times]
        lines.append([row["model"], f"{row['threads']}", *cells, factor(times, "adaste", ("ONNX Runtime",)), *files])
    return grid(lines)


def starts(name: str) -> str:
    """Seconds from the start of a process to its first result, and the most memory it had."""
    lines = [["engine", "32x32, s", "MiB", "224x224, s", "MiB"]]
    small, large = record(name)["processes"].values()
    for engine in small:
        cells = []
        for each in (small[engine], large[engine]):
            cells += [pair(each, digits=3), f"{each['peak_bytes'] / 2**20:.0f}"]
        lines.append([engine, *cells])
    return grid(lines)


def instructions(*names: str) -> str:
    """Instructions per multiply-add of every kernel, a column for each layer, a line for each kernel and compiler."""
    lines = []
    for name in names:
        found = read(f"benchmarks/instructions-{name}")
        layers = list(dict.fromkeys((row["channels"], row["side"]) for row in found["rows"]))
        counts = {(row["kernel"], row["channels"]): row["instructions"] for row in found["rows"]}
        kernels = dict.fromkeys(row["kernel"] for row in found["rows"])
        compiler = "zig" if found["compiler"].startswith("zig") else "GCC"
        lines += [
            [kernel, compiler, *(f"{counts[kernel, channels]:.2f}" for channels, _ in layers)] for kernel in kernels
        ]
    head = ["kernel", "compiler", *(f"{channels} channels, {side}x{side}" for channels, side in layers)]
    return grid([head, *lines])


def summary(*names: str) -> str:
    """Milliseconds of every engine with batch 1 and one thread, a column for each record and size."""
    columns = {}
    for name in names:
        for row in sorted(record(name)["rows"], key=lambda row: row["size"]):
            if (row["batch"], row["threads"]) == (1, 1):
                columns.setdefault(f"{MACHINES[name]}, {row['size']}x{row['size']}", row["engines"])
    lines = [["", *columns]]
    for engine in max(columns.values(), key=len):
        lines.append([engine, *(pair(times[engine]) if engine in times else "" for times in columns.values())])
    return grid(lines)


def deployed(runs: Sequence[Run], chosen_family: str, setup_name: str, size: str, *records: str) -> str:
    """Return real and one-bit weights of a network side by side: accuracy of runs, bytes of files, milliseconds."""

    def accuracy(method: str) -> str:
        name = f"{chosen_family}-{setup_name}-{method}"
        seeds = [run.result.last_accuracy for run in runs if run.folder.name.rpartition("-")[0] == name]
        return f"{cell_summary(OverSeeds.of(seeds))} (n = {len(seeds)})"

    def measured(record_name: str) -> tuple[str, dict[str, dict[str, float]]]:
        rows = {(row["size"], row["batch"], row["threads"]): row["engines"] for row in record(record_name)["rows"]}
        engines = rows[int(size), 1, 1]
        (count,) = {times["runs"] for times in engines.values()}  # a row that takes long has fewer rounds than others
        return f"ms, {MACHINES[record_name]} (n = {count})", engines

    files = next(found["files"] for found in map(record, records) if "files" in found)
    columns = dict(map(measured, records))
    rows = (
        ("float32, ONNX Runtime", accuracy("full-precision"), "onnx", "ONNX Runtime"),
        ("one bit, AdaSTE", accuracy("adaste"), "safetensors", "adaste"),
        ("one bit, AdaSTE, 8-bit activations", "not measured", "safetensors", "adaste int8"),
    )
    lines = [["weights", "test accuracy %", "file", *columns]]
    for weights, reached, kind, engine in rows:
        bytes_of_file = f"{files[f'{size}.{kind}'] / 1e6:.2f} MB"
        lines.append([weights, reached, bytes_of_file, *(pair(times[engine]) for times in columns.values())])
    return grid(lines)


def demo() -> str:
    """Return what `make demo` printed."""
    lines = [["method", "test accuracy %", "bits per weight", "bytes as float32", "packed"]]
    for method in sorted(read("demo/digits")["methods"], key=lambda row: -row["accuracy"]["mean"]):
        reached = f"{method['accuracy']['mean']:.2f} ± {method['accuracy']['spread']:.2f}"
        sizes = (f"{method['float32 bytes']:,}", f"{method['packed bytes']:,}")
        lines.append([method["name"], reached, f"{method['bits per weight']:.0f}", *sizes])
    return grid(lines)


def step() -> str:
    """Return the cost of a compiled step of every method, as a ratio to torch's fused SGD."""

    def rows(name: str, weights: str, mode: str) -> dict[str, dict[str, Any]]:
        found = read(f"benchmarks/step-{name}")["rows"]
        return {row["method"]: row for row in found if (row["weights"], row["mode"]) == (weights, mode)}

    columns = {
        "H200, bfloat16 weights": rows("h200", "bfloat16", "compiled, CUDA graph"),
        "H200, float32 weights": rows("h200", "float32", "compiled, CUDA graph"),
        "CPU, float32 weights": rows("cpu", "float32", "compiled"),
    }
    lines = [["method", *columns, "bytes per parameter, float32"]]
    for method in columns["H200, float32 weights"]:
        on_cpu = columns["CPU, float32 weights"][method]
        ratios = (pair(column[method], "ratio_") for column in columns.values())
        lines.append([method, *ratios, f"{on_cpu['bytes_per_parameter']:.0f}"])
    return grid(lines)


def eager() -> str:
    """Return the cost of an eager step before and since it works on blocks, as a ratio to torch's fused SGD."""
    found = read("benchmarks/step-eager-cpu")
    versions = {
        version: {row["method"]: row for row in found["rows"] if row["version"] == version}
        for version in ("before", "after")
    }
    launches = found["operators_as_on_a_gpu"]
    lines = [["method", "one parameter at a time", "blocks", "GPU operators before", "after"]]
    for method in versions["after"]:
        ratios = (pair(rows[method], "ratio_") for rows in versions.values())
        lines.append([method, *ratios, *(str(launches[version].get(method, "")) for version in versions)])
    return grid(lines)


def training() -> str:
    """Return seconds per epoch of training on an H200."""
    measured = {row["row"]: row for row in read("benchmarks/training-h200")["rows"]}
    released = read("preliminary/speed-h200")["rows"][0]["seconds_per_epoch"]
    lines = [["network", "released AdaSTE code", "adaste"]]
    for name, before in (("ResNet-18", f"{released}"), ("VGG-16", ""), ("four ResNet-18 at once, per run", "")):
        lines.append([name, before, pair(measured[name.partition(",")[0]], "epoch_", digits=3)])
    return grid(lines)


USUAL = {"epochs": 10, "scale": "FanIn()", "gate": None, "start": None, "decay": 0.0}
LABELS = {
    "epochs": lambda row: f"{row['epochs']} epochs",
    "scale": lambda row: f"`{row['scale']}`",
    "gate": lambda row: "" if row["gate"] is None else "no gate",
    "start": lambda row: "" if row["start"] is None else f"latents start at {row['start']}",
    "decay": lambda row: f"decay {row['decay']:g}",
    "network": lambda row: "",
}


def setup_on_digits(name: str, *varied: str) -> str:
    """Return the accuracies that `adaste.setup` reaches, a line for each method and value of the varied fields."""
    rows = read(f"benchmarks/setup-{name}-cpu")["rows"]
    standard = {row["network"] for row in rows if row["method"] == rows[0]["method"]}
    usual = USUAL | {"network": standard}

    def unusual(row: dict[str, Any], field: str) -> bool:
        return row[field] not in standard if field == "network" else row[field] != usual[field]

    rows = [row for row in rows if not any(unusual(row, field) for field in usual if field not in varied)]
    special = [row for row in rows if any(unusual(row, field) for field in varied)]
    if varied:
        methods, networks = ({row[field] for row in special} for field in ("method", "network"))
        rows = [row for row in rows if row["method"] in methods and row["network"] in networks]
    columns = list(dict.fromkeys(row["network"] for row in rows))
    means: dict[str, dict[str, float]] = {}
    for row in sorted(rows, key=lambda row: [row[field] or 0 for field in varied]):
        label = ", ".join(filter(None, [f"`{row['method']}`", *(LABELS[field](row) for field in varied)]))
        means.setdefault(label, {})[row["network"]] = fmean(row["accuracy"])
    if not varied:
        means = dict(sorted(means.items(), key=lambda found: -fmean(found[1].values())))
    lines = [["method", *columns, "mean", "worst"]]
    for label, reached in means.items():
        cells = [f"{reached[network]:.1f}" if network in reached else "" for network in columns]
        lines.append([label, *cells, f"{fmean(reached.values()):.1f}", f"{min(reached.values()):.1f}"])
    return grid(lines)


def first_steps(name: str, network: str) -> str:
    """Return what the first step of each method changes in a network: medians over seeds."""
    found = read(f"benchmarks/setup-{name}-cpu")["first_steps"]
    lines = [["method", "signs that change", "signs that are minus the gradient's", "latents before", "their change"]]
    for row in found:
        if row["network"] == network:
            middle = {key: median(seed[key] for seed in row["seeds"]) for key in row["seeds"][0]}
            shares = [f"{100 * middle[key]:.0f} %" for key in ("flipped", "agree_with_first_gradient")]
            sizes = [f"{middle[key]:.1e}" for key in ("median_latent", "median_update")]
            lines.append([f"`{row['method']}`", *shares, *sizes])
    return grid(lines)


def norm_statistics() -> str:
    """Return the accuracy of the program of docs/own-loop.md with both kinds of BatchNorm statistics."""
    runs = [run["epochs"] for run in read("benchmarks/own-loop-statistics-cpu")["runs"]]
    lines = [["epoch", "with running statistics", "with re-estimated ones"]]
    for epoch in range(4, len(runs[0]) + 1, 4):
        kinds = ([rows[epoch - 1][kind] for rows in runs] for kind in ("running", "reestimated"))
        lines.append([f"{epoch}", *(f"{fmean(values):.1f} ({values[0]:.1f})" for values in kinds)])
    return grid(lines)


def of_the_paper(table: Table, runs: Sequence[Run], chosen_family: str, *setups: str) -> str:
    """A table of adaste.paper with the runs of one family, at these setups or at all it has."""
    chosen = replace(table, setups=tuple(setup(one) for one in setups)) if setups else table
    return grid_of_family(chosen, family(chosen_family), runs)


def flips(runs: Sequence[Run], chosen_family: str, setup_name: str) -> str:
    """The share of signs that flip in the middle of a run and at its end, means over seeds, the best method first."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        for cell_id in run.cell_ids:
            if (cell_id.family, cell_id.setup) == (chosen_family, setup_name) and run.records[-1].flipped is not None:
                found.setdefault(cell_id.method, []).append(run)
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


def differences(usual: Any, made: Any, path: str = "") -> Iterator[str]:
    """Yield what differs between two recipes, or two parts of them, as `--set` would change it."""
    for field in fields(made):
        before, after, place = getattr(usual, field.name), getattr(made, field.name), f"{path}{field.name}"
        if field.name == "augmentation":
            kinds = {type(transform) for transform in after}
            yield from (brief(transform) for transform in after if transform not in before)
            yield from (f"no {brief(transform)}" for transform in before if type(transform) not in kinds)
        elif isinstance(after, Distillation):
            yield from ("a teacher", *differences(Distillation(teacher=after.teacher), after))
        elif before != after and type(before) is type(after) and is_dataclass(after):
            yield from differences(before, after, f"{place}.")
        elif before != after:
            yield f"{place}={brief(after)}"


def unchanged(name: str, folder: Path, epochs: int | None) -> Recipe:
    """Return the recipe that an entry of a study changes: a file beside the study, or a named one."""
    if name.endswith(".json"):
        return Recipe.from_json((folder / name).read_text())
    return named_recipe(name, epochs=epochs)


def study(name: str, runs: Sequence[Run]) -> str:
    """Return the runs of a study file, a line for each recipe: held-out accuracy, and the gain over no changes."""
    file = ROOT / "studies" / f"{name}.json"
    entries, planned = json.loads(file.read_text()), iter(find_recipes(str(file)))
    found = {run.digest: run for run in runs}
    rows: list[tuple[str, str, list[Run], int]] = []
    for entry in entries:
        recipes = [next(planned).recipe for _ in entry.get("seeds") or [0]]
        usual = unchanged(entry["recipe"], file.parent, entry.get("epochs"))
        # How a run is tested is no difference between what is compared.
        tested = replace(usual, holdout=recipes[0].holdout, evaluate_every=recipes[0].evaluate_every)
        label = ", ".join(differences(tested, recipes[0].with_seed(usual.seed)))
        made = [found[recipe.digest] for recipe in recipes if recipe.digest in found]
        rows.append((Path(entry["recipe"]).name.removesuffix(".json").split("-", 2)[2], label, made, len(recipes)))
    means = {
        (method, label): fmean(run.records[-1].deciding for run in made) for method, label, made, _ in rows if made
    }
    lines = [["method", "difference", "n", "held-out accuracy %", "gain", "training %"]]
    for method, label, made, wanted in sorted(rows, key=lambda row: -means.get(row[:2], 0.0)):
        if not made:
            lines.append([f"`{method}`", label, f"0 of {wanted}", "missing", "", ""])
            continue
        reached = cell_summary(OverSeeds.of([run.records[-1].deciding for run in made]))
        gain = f"{means[method, label] - means[method, '']:+.2f}" if label and (method, "") in means else ""
        trained = f"{fmean(run.records[-1].train_accuracy for run in made):.2f}"
        lines.append([f"`{method}`", label, str(len(made)), reached, gain, trained])
    return grid(lines)


VISPA = {
    "cifar10-resnet18": "95.05",
    "cifar10-vgg16": "93.25",
    "cifar100-resnet18": "77.05",
    "cifar100-vgg16": "72.09",
    "tiny-imagenet-resnet18": "58.98",
}
"""Published means of 40 sampled networks, best test epoch, in part with real layers (docs/recipe.md)."""


ONE_BIT = ("adaste", "adaste-annealed", "adaste-annealed-mixup")
"""The rows of the paper that are its own method."""


def published(setting: str, *methods: str) -> str:
    """Return the best accuracy of the paper at a setup."""
    rows = [row for table in ("table1", "table2") for row in TABLES[table].rows if row.method in methods]
    numbers = [row.published[setting].accuracy for row in rows if setting in row.published]
    return f"{max(numbers):.2f}" if numbers else ""


def last_accuracy(runs: Sequence[Run]) -> str:
    """Return the last epochs of the seeds of a recipe."""
    seeds = [run.result.last_accuracy for run in runs]
    return f"{cell_summary(OverSeeds.of(seeds))} (n = {len(seeds)})" if seeds else "missing"


def beside_published(runs: Sequence[Run]) -> str:
    """Return the longest runs of AdaSTE under the common recipe, and in full precision, beside published numbers."""
    lines = [["network", "paper", "VISPA", "one bit", "float32", "epochs"]]
    for data, network in BEST:
        where = setup(f"{data}-{network}")
        made = [
            [run for run in runs if run.belongs_to(family("ours"), method, where)]
            for method in ("adaste", "full-precision")
        ]
        epochs = max(run.recipe.epochs for run in made[0])
        reached = (last_accuracy([run for run in each if run.recipe.epochs == epochs]) for each in made)
        lines.append([where.title, published(where.name, *ONE_BIT), VISPA.get(where.name, ""), *reached, f"{epochs}"])
    return grid(lines)


def best(runs: Sequence[Run]) -> str:
    """Return the last epochs of the recipes named best and of their teachers, beside published numbers."""

    def reached(made: Recipe) -> str:
        return last_accuracy([run for run in runs if run.recipe.unseeded == made])

    files = {row["recipe"]: row for row in read("benchmarks/zoo")["rows"]}

    def deployed_as(made: Recipe) -> list[str]:
        row = files.get(made.digest)
        return [f"{row['bytes'] / 1e6:.2f} MB", pair(row["milliseconds"]["float32"])] if row else ["", ""]

    head = ["setting", "paper, one bit", "paper, float32", "VISPA", "best, one bit", "epochs", "teacher, float32"]
    lines = [[*head, "file", "ms"]]
    for data, network in BEST:
        setting = f"{data}-{network}"
        made, teacher = (named_recipe(f"{setting}-{name}") for name in ("best", "teacher"))
        lines.append(
            [
                setup(setting).title,
                *(published(setting, *ONE_BIT), published(setting, "full-precision"), VISPA.get(setting, "")),
                *(reached(made), str(made.epochs), reached(teacher), *deployed_as(made)),
            ]
        )
    return grid(lines)


def time_to_accuracy(name: str) -> str:
    """Return seconds and accuracies over the seeds of each recipe of a record, with its differences from the first."""
    if not (ROOT / "results" / "benchmarks" / f"{name}.json").exists():
        return "Not measured yet.\n"
    found = read(f"benchmarks/{name}")
    first = Recipe.from_json(json.dumps(found["rows"][0]["recipe"]))
    lines = [["recipe", "difference", "n", "accuracy %", "images", "seconds, minimum / median", "weights"]]
    for row in found["rows"]:
        chosen, made = row["runs"], Recipe.from_json(json.dumps(row["recipe"]))
        seconds = [run["seconds"] for run in chosen]
        lines.append(
            [
                f"`{row['name']}`, {made.epochs} epochs",
                ", ".join(differences(first, made)),
                str(len(chosen)),
                cell_summary(OverSeeds.of([run["accuracy"] for run in chosen])),
                f"{chosen[0]['images']:,} {'test' if chosen[0]['split'] == 'test' else 'held out'}",
                f"{min(seconds):.1f} / {median(seconds):.1f}",
                "all binary" if all(run["all_weights_binary"] for run in chosen) else "not all binary",
            ]
        )
    machine = found["environment"]
    return f"{grid(lines)}\nMade on {machine['gpu'] or machine['processor']}, {machine['date'][:10]}.\n"


def web_speed() -> str:
    """Return milliseconds in a web page, beside ONNX Runtime Web."""
    found = read("benchmarks/web-epyc")
    engines = ("adaste", "onnxruntime-web", "adaste int8", "onnxruntime-web int8")
    lines = [["ResNet-18", *engines, "float32", "8-bit", "two threads: onnxruntime-web", "its int8"]]
    for size, rows in found["milliseconds"].items():
        ratios = [f"{rows[peer]['median'] / rows[own]['median']:.2f}" for own, peer in (engines[:2], engines[2:])]
        threaded = found["milliseconds_with_threads"][size]
        times = [pair(row, "") for row in (*(rows[each] for each in engines), *threaded.values())]
        lines.append([f"{size}x{size}", *times[:4], *ratios, *times[4:]])
    return grid(lines)


def web_sizes() -> str:
    """Return what a page fetches for a network, and how long it takes to start."""
    found = read("benchmarks/web-epyc")
    engines = ("adaste", "onnxruntime-web", "onnxruntime-web int8")
    size = found["bytes"]
    lines = [["for 32x32", *engines]]
    for title, kind in (("MB, all that is fetched", "raw"), ("MB, gzipped", "gzipped")):
        lines.append([title, *(f"{size[f'everything for 32x32, {each}'][kind] / 1e6:.2f}" for each in engines)])
    start = found["start_32_milliseconds"]
    called = "ms from the first request to the network loaded, from this machine"
    lines.append([called, *(f"{start[each]['min']:.0f} / {start[each]['median']:.0f}" for each in engines)])
    return grid(lines)


def zoo() -> str:
    """Return the networks of the zoo."""
    found = read("benchmarks/zoo")
    lines = [["network", "accuracy % over seeds", "float32", "8-bit", "images", "bytes", "ms, float32", "ms, 8-bit"]]
    for row in found["rows"]:
        seeds = f"{cell_summary(OverSeeds.of(row['seeds']))} (n = {len(row['seeds'])})"
        exact = [f"{row[kind]:.2f}" for kind in ("float32", "int8")]
        times = [pair(row["milliseconds"][kind], digits=3) for kind in ("float32", "int8")]
        lines.append([f"`{row['name']}`", seeds, *exact, f"{row['images']:,}", f"{row['bytes']:,}", *times])
    machine = found["environment"]
    calls = min(times["calls"] for row in found["rows"] for times in row["milliseconds"].values())
    return (
        f"{grid(lines)}\nMilliseconds: minimum / median of {calls:,} or more calls with one image, one thread of "
        f"{machine['processor']} ({machine['cores']} cores), {machine['date'][:10]}.\n"
    )


def language(part: str) -> str:
    """Return a table or a sentence of the language models."""
    return language_records.TABLES[part](LANGUAGE)


MEASURED: dict[str, Callable[..., str]] = {
    "language": language,
    "time": time_to_accuracy,
    "zoo": zoo,
    "web-speed": web_speed,
    "web-sizes": web_sizes,
    "inference": latencies,
    "known-models": known_models,
    "starts": starts,
    "instructions": instructions,
    "summary": summary,
    "demo": demo,
    "step": step,
    "eager": eager,
    "training": training,
    "setup": setup_on_digits,
    "first-steps": first_steps,
    "statistics": norm_statistics,
}
OF_STUDIES: dict[str, Callable[..., str]] = {"study": study, "best": best, "published": beside_published}
LONG = replace(TABLES["table1"], rows=tuple(row for row in TABLES["table1"].rows if row.method in BESIDE_REAL))
OF_RUNS = {
    "flips": flips,
    "deployed": deployed,
    "beside-real": partial(of_the_paper, LONG),
    **{name: partial(of_the_paper, table) for name, table in TABLES.items()},
}


def updated(text: str, runs: tuple[Run, ...]) -> str:
    """The text with every table made anew."""

    def table(found: re.Match[str]) -> str:
        name, *words = found[2].split()
        if name in MEASURED:
            return f"{found[1]}\n{MEASURED[name](*words)}\n{found[3]}"
        if name in OF_STUDIES:
            return f"{found[1]}\n{OF_STUDIES[name](*words, runs=runs)}\n{found[3]}"
        chosen_family, epochs, *setups = words
        chosen_runs = [run for run in runs if run.recipe.epochs == int(epochs)]
        return f"{found[1]}\n{OF_RUNS[name](chosen_runs, chosen_family, *setups)}\n{found[3]}"

    return MARKED.sub(table, text)


def main() -> None:
    """Write what has changed."""
    from adaste.paper.figures import render_figure
    from adaste.paper.report.canvas import LOOK
    from adaste.paper.report.page import drawings

    runs = collect(ROOT / "results").runs
    for page in PAGES:
        write_atomically(page, updated(page.read_text(), runs).encode())
    curves = language_records.draw_curves(LANGUAGE)
    pictures = {name: drawing for name, drawing in drawings(runs) if name in PICTURES}
    pictures |= {} if curves is None else {language_records.PICTURE: curves}
    for name, drawing in pictures.items():
        write_atomically(ROOT / "docs" / "pictures" / f"{name}.svg", render_figure(drawing, "svg", LOOK))


if __name__ == "__main__":
    main()
