"""Measured numbers of README and docs that stand outside of the paper's tables are those of results/."""

import json
import re
import statistics
from typing import Any

import pytest

from adaste.recipes.methods import METHODS
from support.pages import ROOT, words


def record(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def speed() -> str:
    return words("docs/speed.md")


@pytest.fixture(scope="module")
def inference() -> str:
    return words("docs/inference.md")


def pair(found: dict[str, float], name: str = "") -> str:
    return f"{found[f'{name}min']:.2f} / {found[f'{name}median']:.2f}"


def test_what_was_fuzzed() -> None:
    page, fuzzed = words("docs/security.md"), record("benchmarks/fuzz-epyc")
    files, threads, *emulated = fuzzed["rows"]
    ran = re.match(r"(\d+) files: (\d+) ran, (\d+) refused", files["printed"][0])
    runs = re.match(r"(\d+) shapes, (\d+) runs of kernels: all right", files["printed"][1])
    assert ran and runs
    all_files, good, refused, shapes, kernels = (f"{int(number):,}" for number in (*ran.groups(), *runs.groups()))
    assert f"{all_files} files, of which {good} ran and {refused} were refused" in page
    assert f"{shapes} shapes, {kernels} runs of kernels" in page
    assert f"{int(threads['printed'][0].split()[0]):,} of the files under ThreadSanitizer" in page
    assert threads["command"].endswith(" thread")
    checked = re.findall(
        r"(\S+): (\d+) shapes, (\d+) failed", "\n".join(line for row in emulated for line in row["printed"])
    )
    assert {(number, failed) for _, number, failed in checked} == {("300", "0")}
    assert len({name for name, _, _ in checked}) == 6 and "300 shapes for each of the six kernels, no failure" in page
    native = emulated[0]["printed"][emulated[0]["printed"].index("on this processor:") :]
    assert [line.partition(":")[0] for line in native if "0 failed" in line] == ["avx512-five", "avx512-six", "vnni"]
    assert f"{fuzzed['date'][:10]}, sources of {fuzzed['commit'][:7]}, g++ 12, {fuzzed['processor']}" in page
    assert fuzzed["commit"].isalnum()  # of a source without changes


def test_the_speed_of_the_step() -> None:
    def ratios(name: str, method: str, weights: str, mode: str) -> dict[str, float]:
        (row,) = (
            row
            for row in record(f"benchmarks/{name}")["rows"]
            if (row["method"], row["weights"], row["mode"]) == (method, weights, mode)
        )
        return row

    table = (ROOT / "docs" / "method.md").read_text().partition("## Cost")[2].partition("\n## ")[0]
    _, _, *lines = (line for line in table.splitlines() if line.startswith("|"))
    assert len(lines) == 12
    for line in lines:
        method, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        on_cpu = ratios("step-cpu", method, "float32", "compiled")
        graphs = [ratios("step-h200", method, kind, "compiled, CUDA graph") for kind in ("bfloat16", "float32")]
        measured = [pair(row, "ratio_") for row in (*graphs, on_cpu)]
        assert cells == [*measured, f"{on_cpu['bytes_per_parameter']:.0f}"], method


def test_the_page_of_the_demonstration_has_what_it_printed() -> None:
    demo, page = record("demo/digits"), words("docs/demonstration.md")
    assert f"{demo['seconds']:.0f} s, {demo['date'][:10]}" in page
    assert f"{demo['data']['train'] + demo['data']['test']:,} digits ({demo['data']['test']} for testing)" in page
    for method in demo["methods"]:
        found = method["accuracy"]
        sizes = f"{method['float32 bytes']:,} | {method['packed bytes']:,}"
        accuracy = f"{found['mean']:.2f} +- {found['spread']:.2f}"
        assert f"| {method['name']} | {accuracy} | {method['bits per weight']:.0f} | {sizes} |" in page


def test_the_page_on_own_loops_has_what_setup_reached_on_digits() -> None:
    measured, page = record("benchmarks/setup-on-digits-cpu"), words("docs/own-loop.md")
    methods = dict.fromkeys(row["method"] for row in measured["rows"])
    for method in methods:
        means = [f"{statistics.fmean(row['accuracy']):.1f}" for row in measured["rows"] if row["method"] == method]
        assert f"| `{method}` | {' | '.join(means)} |" in page
    assert f"n = {measured['training']['seeds']} seeds on a CPU" in page


def test_sizes_memory_and_starts_of_the_runtime(readme: str) -> None:
    measured = record("benchmarks/inference-avx2")
    sizes = [measured["files"][f"32{kind}"] / 1e6 for kind in (".safetensors", ".onnx", "-int8.onnx")]
    assert "has {:.2f} MB at 32x32 (as float32 {:.1f} MB, as int8 {:.1f} MB)".format(*sizes) in readme
    started = measured["processes"]["32"]
    memory = [started[name]["peak_bytes"] / 2**20 for name in ("adaste", "ONNX Runtime", "ONNX Runtime int8")]
    assert "takes {:.0f} MiB (ONNX Runtime {:.0f}, with 8 bits {:.0f})".format(*memory) in readme
    seconds = [started[name]["median"] for name in ("adaste without numpy", "torch", "adaste")]
    assert "comes {:.2f} s after its start (torch: {:.1f} s), or {:.2f} s where numpy".format(*seconds) in readme
    assert f"medians of {measured['environment']['starts']} starts" in readme


def test_what_readme_counts(readme: str) -> None:
    assert len(METHODS) == 15 and "adaste list methods # fifteen of them" in readme
    lines = len((ROOT / "examples" / "read_packed.py").read_text().splitlines())
    assert f"with numpy alone, in {lines} lines" in readme


def test_epochs_starts_and_memory_of_training(readme: str, speed: str) -> None:
    rows = {row["row"]: row for row in record("benchmarks/training-h200")["rows"]}
    released = record("preliminary/speed-h200")["rows"][0]["seconds_per_epoch"]
    for name in ("ResNet-18", "VGG-16", "four ResNet-18 at once"):
        found = f"{rows[name]['epoch_min']:.3f} / {rows[name]['epoch_median']:.3f}"
        for page in (readme, speed):
            assert re.search(rf"\| {name}[^|]*\|[^/]*\| {found} \|", page), name
    factors = [released / rows[name]["epoch_median"] for name in ("ResNet-18", "four ResNet-18 at once")]
    assert "So {:.1f} times the released code, {:.0f} times with four".format(*factors) in speed
    names = ("ResNet-18, first start", "ResNet-18, second start", "ResNet-18", "ResNet-18, fourth start")
    starts = [rows[name]["runs"][0]["start_seconds"] for name in names]
    assert "took {:.1f} s (everything is compiled), the second {:.1f} s".format(*starts) in speed
    assert f"the third and fourth {starts[2]:.1f} and {starts[3]:.1f} s" in speed
    assert f"| {rows['ResNet-18']['runs'][0]['memory_bytes'] / 2**30:.1f} GiB |" in speed


def test_what_was_tried_to_make_a_step_faster(speed: str) -> None:
    steps = record("benchmarks/speed-steps-h200")
    rows = [row["milliseconds"] for row in steps["rows"]]
    kernels = [{name: found[1] / 1000 for name, found in row["kernels"].items()} for row in steps["rows"]]
    first = steps["rows"][0]["kernels"]
    rest = [sum(first[name][index] for name in ("inductor kernels", "other")) for index in (0, 1)]
    convolutions = f"{kernels[0]['convolutions']:.2f} in {first['convolutions'][0]} kernels"
    assert f"| {rows[0]:.3f}: convolutions {convolutions}, all else {rest[1] / 1000:.2f} in {rest[0]} |" in speed
    assert f"coordinate-descent tuning | {rows[1]:.3f}," in speed
    assert f"max-autotune | {rows[2]:.3f}:" in speed
    assert f"| {rows[7]:.2f} where {rows[6]:.2f} was before: left out |" in speed
    own, inductor = kernels[4]["own kernels"], kernels[0]["inductor kernels"]
    assert f"these kernels {own:.2f}: slower than all of inductor's ({inductor:.2f})" in speed
    assert f"| {kernels[9]['own kernels']:.2f}, measured beside weight gradients" in speed
    assert f"| {100 * (1 - rows[7] / rows[5]):.0f} % ({rows[5]:.2f} to {rows[7]:.2f}) |" in speed
    assert f"({390 * rows[9] / 1000:.3f} to 0.792 s per epoch" in speed
    prototype = record("preliminary/speed-h200")["rows"][2]["seconds_per_epoch"]
    assert f"A prototype had taken {1000 * prototype / 390:.1f} ({prototype} s per epoch" in speed
    alone = {start["engine"]: start for start in steps["starts"] if start["engine"] != "graph"}
    compiled, eager = alone["compiled"]["epoch_seconds"][-1], alone["eager"]["epoch_seconds"][-1]
    assert f"without a graph, {compiled:.2f} s per epoch; eager {eager:.1f} s" in speed


def test_the_first_runs_are_those_of_their_table(readme: str) -> None:
    lines = (ROOT / "results" / "README.md").read_text().splitlines()
    rows = [re.match(r"\| \[\w+\]\((runs/\S+)\) \| (\S+) \|", line) for line in lines]
    shown = {found[1]: found[2] for found in rows if found}
    assert len(shown) == 5
    for folder, accuracy in shown.items():
        assert accuracy == f"{record(f'{folder}/result')['last_accuracy']:.2f}"
    assert f"# {shown['runs/cifar10-resnet-adaste-49ae00d537b774c5']} % after the last epoch" in readme
    latents_of_the_network = "runs/cifar10-resnet-straightthrough-35d46c8ebe04ed50"
    assert f"({shown[latents_of_the_network]} % on CIFAR-10, [record](../results/" in words("docs/method.md")


def of_all_layers(name: str, kernel: str) -> tuple[float, float]:
    """Milliseconds of a kernel for all layers, at 32x32 and at 224x224."""
    lines = (ROOT / "results" / "benchmarks" / "layers-xeon" / f"{name}.txt").read_text().splitlines()
    heads = [line.split("|") for line in lines if line.startswith(" ") and "scalar-int8" in line]
    sums = [line.split("|") for line in lines if line.startswith("all ")]
    small, large = (
        float(cells[[title.strip() for title in head].index(kernel)].split()[0])
        for head, cells in zip(heads, sums, strict=True)
    )
    return small, large


def test_what_was_tried_to_make_kernels_faster(inference: str) -> None:
    for name, kernel, idea, digits in (
        ("1-four-channels", "avx512", "one shuffle and one addition", (2, 1)),
        ("1-four-channels", "avx512-strips", "as on AVX2", (1, 0)),
        ("2-five-and-six", "avx512-six", "blocks of 12 pixels by 32 outputs", (2, 1)),
        ("2-five-and-six", "avx512-six-wide", "the same, 5 pixels by 64 outputs", (2, 1)),
        ("2-five-and-six", "avx512-five-wide", "the same with five channels, from smaller tables", (2, 1)),
        ("1-four-channels", "vnni", "expanded to +-1 on the fly", (1, 1)),
    ):
        small, large = of_all_layers(name, kernel)
        assert f"{idea} | {small:.{digits[0]}f} and {large:.{digits[1]}f}" in inference

    def network(name: str, size: int, threads: int, engine: str) -> float:
        rows = record(f"benchmarks/{name}")["rows"]
        same = [row for row in rows if (row["size"], row["batch"], row["threads"]) == (size, 1, threads)]
        return same[-1]["engines"][engine]["min"]

    before = [network("layers-xeon/2-networks", 32, threads, "adaste") for threads in (1, 2)]
    then = [network("inference-xeon", 32, threads, "adaste") for threads in (1, 2)]
    assert "one thread {:.2f}, two {:.2f} before; {:.2f} and {:.2f} then".format(*before, *then) in inference
    for name in ("layers-xeon/2-networks", "inference-xeon-again"):
        small, large = (network(name, size, 1, "adaste int8") for size in (32, 224))
        assert f"| the network {small:.2f} and {large:.2f} |" in inference
    for name in ("inference-xeon", "inference-xeon-again", "inference-avx2"):
        errors = [row["engines"]["adaste"]["error"] for row in record(f"benchmarks/{name}")["rows"]]
        assert max(errors) < 2e-6 and "logits within 2e-6 of theirs" in inference


def test_what_re_estimated_statistics_change_in_a_large_network() -> None:
    page = words("docs/reproducing.md")
    adaste, connect = (run["epochs"] for run in record("benchmarks/norm-statistics-curve-h200")["runs"])

    def gain(rows: list[dict[str, float]], first: int, last: int) -> str:
        gains = [row["reestimated"] - row["running"] for row in rows[first - 1 : last]]
        return f"{statistics.fmean(gains):.2f}"

    def both(row: dict[str, float]) -> str:
        return f"{row['running']:.2f} and {row['reestimated']:.2f} %"

    tens = ((11, 20), (21, 30), (31, 40), (51, 60))
    first, second, third, last = (gain(adaste, *ten) for ten in tens)
    assert f"AdaSTE gains {first} points on average over the epochs 11 to 20, {second} over 21 to 30, {third}" in page
    assert f"{last} over the last ten ({both(adaste[29])} in epoch 30, {both(adaste[-1])} in the last)" in page
    first, second, third, last = (gain(connect, *ten) for ten in tens)
    assert f"BinaryConnect {first}, {second}, {third} and {last} ({both(connect[-1])} in the last)" in page
    seconds = {
        name: statistics.median(row[f"{name}_seconds"] for row in adaste[5:])
        for name in ("train", "test", "estimation")
    }
    assert f"It takes {seconds['estimation']:.3f} s per test, beside {seconds['train']:.2f} s of training" in page
    assert f"{seconds['test']:.3f} s of testing per epoch" in page
