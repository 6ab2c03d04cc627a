"""The study of language models: its network is Hugging Face's, its runs resume exactly, its records are whole."""

import json
import lzma
import math
import sys
import weakref
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import adaste
from benchmarks.language import choose, corpus, in_llama_cpp, records, study, train
from benchmarks.language.llama import Llama, Shape, to_hugging_face
from benchmarks.language.recipe import Muon, Recipe, orthogonal
from benchmarks.language.train import Run, Text, measure, read_text
from benchmarks.language.weights import load_weights, save_weights
from support.pages import ROOT

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
TINY = Recipe(
    method="straight-through",
    scale="group",
    iterations=12,
    every=4,
    warm_up=2,
    layers=1,
    width=128,
    heads=2,
    intermediate=128,
    context=16,
    batch=4,
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat, the dog ran.\n" * 60)
    return path


def run_of(recipe: Recipe, text: Path) -> Run:
    return Run(recipe, read_text(text, recipe, CPU), CPU)


def test_the_network_is_hugging_faces_llama() -> None:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    network = Llama(Shape(tokens=31, layers=2, width=64, heads=4, intermediate=96, context=24)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        tokens = torch.randint(0, 31, (3, 20))
        torch.testing.assert_close(network(tokens), to_hugging_face(network)(tokens).logits, rtol=1e-4, atol=1e-4)


def test_muon_makes_the_steps_of_torchs() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this version of torch has no Muon")
    generator = torch.Generator().manual_seed(0)
    shapes = [(8, 8), (16, 8), (8, 8), (8, 24)]
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    mine, its = ([torch.nn.Parameter(each.clone()) for each in start] for _ in range(2))
    optimizers = Muon(mine, lr=0.02, weight_decay=0.1), torch.optim.Muon(its, lr=0.02, weight_decay=0.1)
    for _ in range(4):
        for one, other in zip(mine, its, strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for one, other, first in zip(mine, its, start, strict=True):
        assert (one - other).norm() < 0.01 * (other - first).norm(), "both round to bfloat16"


def test_orthogonal_matrices_have_singular_values_near_one() -> None:
    for shape in ((2, 6, 6), (1, 4, 10), (1, 10, 4)):
        made = orthogonal(torch.randn(shape, generator=torch.Generator().manual_seed(1)))
        values = torch.linalg.svdvals(made.float())
        assert made.shape == shape and values.min() > 0.5 and values.max() < 1.3


def test_a_text_is_divided_without_overlap(text: Path) -> None:
    content = text.read_bytes()
    held_out, whole = (read_text(text, replace(TINY, held_out=held), CPU) for held in (True, False))
    assert whole.characters is not None
    assert whole.tokens == len(set(content)) + 1
    spelled = "".join(whole.characters[token] for token in torch.cat((whole.train, whole.measured)).tolist())
    assert spelled.encode() == content
    assert len(whole.train) == int(0.9 * len(content))
    assert torch.equal(torch.cat((held_out.train, held_out.measured)), whole.train)
    as_bytes = read_text(text, replace(TINY, vocabulary="bytes"), CPU)
    assert (as_bytes.tokens, bytes(as_bytes.train[:7].tolist())) == (256, content[:7])
    text.with_suffix(".xz").write_bytes(lzma.compress(content))
    assert torch.equal(read_text(text.with_suffix(".xz"), TINY, CPU).train, held_out.train)


def test_a_measurement_is_the_mean_over_all_whole_sequences(text: Path) -> None:
    torch.manual_seed(0)
    network = Llama(Shape(tokens=5, layers=1, width=32, heads=2, intermediate=32, context=4, dropout=0.5))
    tokens = torch.randint(0, 5, (15,))
    found = measure(network, tokens, batch=2)
    with torch.no_grad():
        network.eval()
        losses = []
        for first in (0, 4, 8):  # a fourth sequence lacks its last token
            logs = network(tokens[None, first : first + 4]).log_softmax(-1)[0]
            losses += [-float(logs[place, tokens[first + place + 1]]) for place in range(4)]
    assert found == pytest.approx(sum(losses) / 12, rel=1e-5)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"method": "full-precision", "scale": "none", "decay": 0.1},
        {"base": "muon", "scale": "channel"},
        {"method": "adaste", "scale": "fan-in", "base": "own", "rate": 1.0},
        {"method": "adaste-printed", "scale": "fan-in", "base": "own", "rate": 1.0},
        {"method": "parq"},
    ],
    ids=str,
)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(
    changes: dict, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "LOOK", 3)
    recipe = replace(TINY, **changes)
    whole = run_of(recipe, text)
    assert whole.train()
    first = run_of(recipe, text)
    assert not first.train(until=0.0) and first.iteration == 3
    first.save(tmp_path / "checkpoint.pt")
    second = run_of(recipe, text)
    second.load(tmp_path / "checkpoint.pt")
    assert second.train()
    assert second.curve == whole.curve and [row["iteration"] for row in whole.curve] == [4, 8, 12]
    for one, other in zip(whole.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_run_that_goes_on_sets_the_rates_that_its_steps_read(text: Path, tmp_path: Path) -> None:
    """As tensors, of which a CUDA graph reads those that were there before the state was loaded."""

    def with_rates_in_tensors() -> tuple[Run, list[torch.Tensor]]:
        run = run_of(TINY, text)
        for group in run.optimizers.rest.param_groups:
            group["lr"] = torch.tensor(group["lr"])
        return run, [group["lr"] for group in run.optimizers.rest.param_groups]

    with_rates_in_tensors()[0].save(tmp_path / "checkpoint.pt")
    run, rates = with_rates_in_tensors()
    run.load(tmp_path / "checkpoint.pt")
    run.optimizers.set_rates(0.25)
    assert [float(rate) for rate in rates] == pytest.approx([0.25 * TINY.rest_rate] * 2)
    for group, rate in zip(run.optimizers.rest.param_groups, rates, strict=True):
        assert group["lr"] is rate


def test_a_run_learns(text: Path) -> None:
    run = run_of(replace(TINY, iterations=120, every=40, rate=3e-3), text)
    run.train()
    losses = [row["measured"] for row in run.curve]
    assert losses[0] > losses[-1] and losses[-1] < 2.2
    record = run.record()
    assert record["best"]["measured"] == min(losses)
    assert record["binary"] == 4 * 128**2 + 3 * 128**2


def test_rates_rise_along_a_line_and_fall_to_zero() -> None:
    recipe = replace(TINY, warm_up=10, iterations=110)
    factors = [recipe.rate_factor(iteration) for iteration in range(111)]
    assert factors[0] == pytest.approx(1 / 11) and max(factors) == factors[10] == 1
    assert factors[60] == pytest.approx(0.5) and factors[110] == pytest.approx(0)


def test_binary_weights_survive_in_a_small_file(text: Path, tmp_path: Path) -> None:
    run = run_of(TINY, text)
    run.train()
    with run.optimizers.latents.binarized(run.network):
        save_weights(tmp_path / "network.safetensors", run.network)
        wanted = {name: each.detach().clone() for name, each in run.network.named_parameters()}
    again = Llama(run.network.shape)
    load_weights(tmp_path / "network.safetensors", again)
    for name, each in again.named_parameters():
        binary = "proj" in name
        assert torch.equal(each, wanted[name] if binary else wanted[name].half().float())
    assert (tmp_path / "network.safetensors").stat().st_size < sum(each.numel() for each in wanted.values()) / 2


def test_a_trained_network_becomes_a_gguf_file(text: Path, tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    run = run_of(TINY, text)
    run.train()
    with run.optimizers.latents.binarized(run.network):
        adaste.export_gguf(to_hugging_face(run.network), run.text.characters, tmp_path / "model.gguf")
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    assert kinds["blk.0.ffn_down.weight"] == "Q1_0" and kinds["token_embd.weight"] == "F16"


def test_a_study_is_a_grid_and_its_files_are_read() -> None:
    made = study.recipes_in(
        {"runs": [{"method": "full-precision", "rate": [1e-3, 2e-3], "seed": [0, 1]}, {"method": "full-precision"}]}
    )
    assert len(made) == 4 and len({recipe.name for recipe in made}) == 4, "the last is one of the first"
    for path in sorted((ROOT / "benchmarks" / "language" / "studies").glob("*.json")):
        assert study.recipes_in(json.loads(path.read_text()))
    for wrong in ({"method": "sgd"}, {"method": "adaste"}, {"method": "parq", "scale": "none"}, {"base": "lion"}):
        with pytest.raises(ValueError, match="must be one of"):
            study.recipes_in({"runs": [{"method": "full-precision", **wrong}]})
    with pytest.raises(ValueError, match="a recipe has no learning_rate"):
        study.recipes_in({"runs": [{"learning_rate": 1.0}]})


def test_a_study_goes_on_where_it_was_stopped(text: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    shape = {name: getattr(TINY, name) for name in ("iterations", "every", "layers", "width", "context", "batch")}
    plan = {"runs": [{"method": "parq", "scale": ["channel", "group"], "heads": 2, "intermediate": 128, **shape}]}
    (tmp_path / "study.json").write_text(json.dumps(plan))
    output = tmp_path / "records"

    def start(*options: str) -> str:
        arguments = ["study", str(tmp_path / "study.json"), "--text", str(text), "--output", str(output)]
        monkeypatch.setattr(sys, "argv", [*arguments, "--device", "cpu", "--at-once", "2", *options])
        study.main()
        return capsys.readouterr().out

    started = start("--minutes", "0", "--checkpoints", str(tmp_path / "kept"))
    assert "0 of 2 runs have a record now" in started
    told = start("--weights", str(tmp_path / "weights"), "--checkpoints", str(tmp_path / "kept"))
    assert "2 of 2 runs have a record now" in told
    names = [recipe.name for recipe in study.recipes_in(plan)]
    record = json.loads((output / f"{names[0]}.json").read_text())
    assert record["recipe"]["method"] == "parq" and len(record["curve"]) == 3
    assert record["environment"]["torch"] == torch.__version__ and record["at_once"] == 2
    assert sorted(path.stem for path in (tmp_path / "weights").iterdir()) == sorted(names)
    assert not any((tmp_path / "kept").iterdir()), "a checkpoint of a run that is through is not needed"
    assert "2 of 2 runs have a record\n" in start("--dry-run")
    longer = {"runs": [{**plan["runs"][0], "iterations": 10_000}]}
    (tmp_path / "study.json").write_text(json.dumps(longer))
    told = start("--minutes", "1")
    assert "0 of 2 runs have a record now" in told and "not through" not in told, "by the records it would take longer"


def test_runs_that_are_saved_start_until_the_end(text: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    shape = {name: getattr(TINY, name) for name in ("every", "layers", "width", "heads", "intermediate", "context")}
    plan = {"runs": [{"method": "parq", "scale": "group", "iterations": 4, "batch": 4, "seed": [0, 1, 2], **shape}]}
    (tmp_path / "study.json").write_text(json.dumps(plan))
    arguments = ["study", str(tmp_path / "study.json"), "--text", str(text), "--output", str(tmp_path / "records")]
    monkeypatch.setattr(study, "STARTING", 3600.0)
    minutes = ["--minutes", "60.02", "--checkpoints", str(tmp_path / "kept")]  # for the first run, and not again
    monkeypatch.setattr(sys, "argv", [*arguments, "--device", "cpu", "--at-once", "1", *minutes])
    study.main()
    assert "3 of 3 runs have a record now" in capsys.readouterr().out


def test_a_run_that_fails_does_not_end_the_others(text: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    shape = {name: getattr(TINY, name) for name in ("every", "layers", "width", "heads", "intermediate", "batch")}
    plan = {"runs": [{"method": "parq", "scale": "group", "iterations": 4, "context": [10_000, 16], **shape}]}
    (tmp_path / "study.json").write_text(json.dumps(plan))
    arguments = ["study", str(tmp_path / "study.json"), "--text", str(text), "--output", str(tmp_path / "records")]
    monkeypatch.setattr(sys, "argv", [*arguments, "--device", "cpu", "--at-once", "1"])
    with pytest.raises(SystemExit, match="1 runs failed"):
        study.main()
    told = capsys.readouterr().out
    assert "failed with ValueError: both parts of the text must be longer" in told
    assert "1 of 2 runs have a record now" in told


def test_a_run_before_this_one_holds_no_memory(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Run]] = []

    def remembered(*arguments: Any, **settings: Any) -> Run:
        assert all(run() is None for run in made)
        run = Run(*arguments, **settings)
        made.append(weakref.ref(run))
        return run

    monkeypatch.setattr(study, "Run", remembered)
    job = study.Job(text, tmp_path, "cpu", math.inf, None, None, at_once=1)
    for seed in range(3):
        job(replace(TINY, seed=seed))
    assert len(made) == 3


def test_a_text_that_is_too_short_for_a_sequence_is_an_error() -> None:
    short = Text(torch.zeros(10, dtype=torch.uint8), torch.zeros(40, dtype=torch.uint8), 3, "", None)
    with pytest.raises(ValueError, match="context"):
        Run(TINY, short, CPU)


def test_a_corpus_has_every_module_once_in_an_order_that_does_not_depend_on_packages(tmp_path: Path) -> None:
    modules = {"a/one.py": b"x = 1\n" * 50, "a/two.py": b"y = 2\n" * 50, "a/same.py": b"x = 1\n" * 50}
    others = {
        "a/short.py": b"z\n",
        "a/data.txt": b"t" * 300,
        "a/latin.py": b"\xe9" * 300,
        "a/long.py": b"w\n" * 150_000,
    }
    for name, files in (("first.whl", modules | others), ("second.whl", dict(reversed(modules.items())))):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for path, content in files.items():
                archive.writestr(path, content)
    built = [corpus.build(corpus.modules_in([tmp_path / name])) for name in ("first.whl", "second.whl")]
    assert built[0] == built[1]
    assert sorted(built[0].split(b"\xff")) == sorted([b"", modules["a/one.py"], modules["a/two.py"]])


def test_a_network_is_compared_with_its_files_in_llama_cpp(text: Path, tmp_path: Path, monkeypatch) -> None:
    if not in_llama_cpp.is_installed():
        pytest.skip("node-llama-cpp is not installed: make llama")
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed")
    run = run_of(replace(TINY, iterations=40, every=40), text)
    run.train()
    study.write_record(tmp_path / "run.json", run.record())
    with run.optimizers.latents.binarized(run.network):
        save_weights(tmp_path / "network.safetensors", run.network)
    arguments = [str(tmp_path / "network.safetensors"), "--record", str(tmp_path / "run.json"), "--text", str(text)]
    output = tmp_path / "compared.json"
    options = ["--output", str(output), "--sequences", "8", "--rounds", "1", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["in_llama_cpp", *arguments, *options])
    in_llama_cpp.main()
    record = json.loads(output.read_text())
    assert record["nats_llama_cpp"] == pytest.approx(record["nats_torch"], abs=0.01)
    assert record["bytes_q1_0"] < record["bytes_f16"] and record["tokens_per_second_q1_0"]["median"] > 0
    assert record["generated"] == TINY.context - 2, "the context ends there"
    assert not list(tmp_path.glob("*.gguf")), "nobody asked for them"


def record_of(recipe: Recipe, losses: dict[int, float]) -> dict:
    curve = [{"iteration": iteration, "train": 1.0, "measured": loss} for iteration, loss in losses.items()]
    best = min(curve, key=lambda row: row["measured"])
    return {"recipe": asdict(recipe), "curve": curve, "best": best, "seconds": 90.0}


def test_what_is_chosen_was_best_on_held_out_text(tmp_path: Path, monkeypatch) -> None:
    def record(recipe: Recipe, losses: dict[int, float]) -> None:
        study.write_record(tmp_path / f"{recipe.name}.json", record_of(recipe, losses))

    def chosen(what: str) -> list[Recipe]:
        options = ["--records", str(tmp_path), "--output", str(tmp_path / "next" / "study.json"), "--methods"]
        monkeypatch.setattr(sys, "argv", ["choose", what, *options, "1" if what == "final" else "2"])
        choose.main()
        return study.recipes_in(json.loads((tmp_path / "next" / "study.json").read_text()))

    (tmp_path / "next").mkdir()
    with pytest.raises(SystemExit, match="train that first"):
        chosen("rates")
    real, bits = Recipe("full-precision", decay=0.1), Recipe("straight-through", "group")
    of_code = replace(bits, vocabulary="bytes", rate=2e-3, iterations=600, layers=12)
    for recipe in (real, bits, replace(bits, scale="channel"), Recipe("parq", "group")):
        for rate, loss in ((1e-3, 2.0), (3e-3, 1.9), (1e-2, 2.1)):
            worse = 0.1 * (recipe.scale == "channel") + 0.2 * (recipe.method == "parq")
            record(replace(recipe, rate=rate, iterations=1000), {500: 3.0, 1000: loss + worse})
    for recipe in (of_code, replace(of_code, rate=4e-3), replace(of_code, method="full-precision", scale="none")):
        record(recipe, {600: 1.0 + recipe.rate})
    long = chosen("rates")
    assert [(each.scale, each.rate, each.iterations, each.every) for each in long] == [
        (scale, 3e-3, length, length // 20) for length in (5000, 2500) for scale in ("none", "group", "channel")
    ], "the third best method with one-bit weights is left out, and the models of code are others"
    assert all(each.held_out for each in long) and long[0].decay == 0.1
    for recipe, best in zip(long, (1.5, 1.6, 1.55, 1.45, 1.58, 1.57), strict=True):
        record(recipe, {recipe.iterations // 2: best, recipe.iterations: best + 0.1})
    final = chosen("final")
    assert {(each.method, each.scale, each.iterations) for each in final} == {
        ("full-precision", "none", 2500),
        ("straight-through", "channel", 5000),
    }
    assert len(final) == 6 and not any(each.held_out for each in final)
    code = chosen("code")
    assert [(each.method, each.rate, each.layers) for each in code] == [
        ("straight-through", 2e-3, 12),
        ("full-precision", 2e-3, 12),
    ]
    assert not any(each.held_out for each in code) and {(each.iterations, each.warm_up) for each in code} == {
        (8000, 400)
    }


def test_tables_and_the_figure_show_what_was_measured(tmp_path: Path) -> None:
    assert records.sentence(tmp_path) == "" and records.draw_curves(tmp_path) is None
    for name in ("final", "held-out", "code", "engines"):
        assert records.TABLES[name](tmp_path) == records.NOTHING
    real, bits = Recipe("full-precision", decay=0.1), Recipe("straight-through", "group", rate=3e-3)
    for recipe, loss in ((real, 1.5), (bits, 1.6)):
        made = [(replace(recipe, iterations=1000), {1000: loss + 0.1}), (recipe, {2500: loss, 5000: loss + 0.05})]
        made += [
            (replace(recipe, held_out=False, seed=seed), {2500: loss + 0.02 + 0.1 * seed, 5000: 1.0})
            for seed in range(3)
        ]
        made += [(replace(recipe, held_out=False, vocabulary="bytes"), {5000: loss - 1})]
        for one, losses in made:
            study.write_record(tmp_path / f"{one.name}.json", record_of(one, losses))
    failed = replace(bits, rate=1.0, iterations=1000)
    study.write_record(
        tmp_path / "failed.json", {**record_of(failed, {1000: 0.0}), "problem": "the loss is not finite"}
    )
    compared = {
        "run": "straight-through.json", "tokens_compared": 8128, "nats_torch": 1.70292, "nats_llama_cpp": 1.70317,
        "bytes_q1_0": 1_000_000, "bytes_f16": 12_000_000, "generated": 100, "rounds": 3, "threads": 2,
        "tokens_per_second_q1_0": {"median": 250.0}, "tokens_per_second_f16": {"median": 100.0},
        "environment": {"processor": "AMD EPYC", "date": "2026-11-19T15:59:16+00:00"},
    }  # fmt: skip
    (tmp_path / "compared.json").write_text(json.dumps(compared))
    assert "| straight-through | group | adamw | 0.003 | 2,500 | 1.7200 ± 0.1000 | +0.1000 | 3 |" in (
        records.final_table(tmp_path)
    )
    assert "| full precision |  | adamw | **0.001** | 1.6000 | 1.5000 |" in records.held_out_table(tmp_path)
    assert "| straight-through | group | adamw | 0.003 | 5,000 | 0.6000 | 0.8656 | 2 |" in records.code_table(tmp_path)
    assert "| 1.70292 | 1.70317 | 1.00 MB | 12.00 MB | 12.0 | 250 | 100 | 2.50 |" in records.engine_table(tmp_path)
    said = records.sentence(tmp_path)
    assert (
        "1.7200 nats per character on Tiny Shakespeare with one-bit weights, 1.6200 in full precision (n = 3)" in said
    )
    assert "1.0 MB, 1/12.0 of that with float16 weights, and generates 2.5 times its tokens per second" in said
    (axes,) = records.draw_curves(tmp_path).axes
    assert [line.get_label() for line in axes.lines] == ["full precision, adamw", "straight-through, group, adamw"]
    assert list(axes.lines[1].get_ydata()) == pytest.approx([1.72, 1.0])
