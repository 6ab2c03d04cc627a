"""Runs of the study on a GPU, where a step is one CUDA graph of compiled code in bfloat16."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import adaste
from benchmarks.language import train
from benchmarks.language.recipe import Recipe
from benchmarks.language.train import Run, measure, read_text

pytestmark = pytest.mark.gpu

RECIPE = Recipe(
    method="straight-through",
    scale="group",
    rate=3e-3,
    iterations=120,
    every=40,
    warm_up=10,
    layers=2,
    width=128,
    heads=2,
    intermediate=256,
    context=64,
    batch=16,
    dropout=0.1,
)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat, the dog ran.\n" * 400)
    return path


def run_of(recipe: Recipe, text: Path, device: str) -> Run:
    where = torch.device(device)
    return Run(recipe, read_text(text, recipe, where), where)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scale": "channel", "base": "muon", "rate": 1e-2},
        {"method": "full-precision", "scale": "none", "decay": 0.1},
        {"method": "parq"},
        {"method": "pmf"},
        {"method": "adaste", "scale": "fan-in", "base": "own", "rate": 1.0},
        {"method": "adaste-printed", "scale": "fan-in", "base": "own", "rate": 1.0},
        {"method": "bayesbinn", "scale": "fan-in", "base": "own", "rate": 1.0},
    ],
    ids=str,
)
def test_a_graph_trains_what_steps_on_a_cpu_train(changes: dict, text: Path) -> None:
    """Batches and dropout differ, so losses are compared loosely; those of weights exactly."""
    recipe = replace(RECIPE, **changes)
    runs = [run_of(recipe, text, device) for device in ("cuda", "cpu")]
    assert all(run.train() for run in runs)
    last = [run.curve[-1]["measured"] for run in runs]
    assert last[0] == pytest.approx(last[1], rel=0.25)
    on_gpu, on_cpu = runs
    assert on_gpu.optimizers.latents.steps == recipe.iterations
    with on_gpu.optimizers.latents.binarized(on_gpu.network):
        on_cpu.network.load_state_dict({name: each.cpu() for name, each in on_gpu.network.state_dict().items()})
    assert measure(on_cpu.network, on_cpu.text.measured, 16) == pytest.approx(last[0], rel=1e-3)


def test_rates_reach_the_steps_of_a_graph(text: Path) -> None:
    run = run_of(RECIPE, text, "cuda")
    run.train()
    assert run.iteration == RECIPE.iterations
    before = [latent.clone() for _, latent in run.optimizers.latents.latents()]
    run.optimizers.set_rates(0.0)
    run._step()
    for (_, latent), old in zip(run.optimizers.latents.latents(), before, strict=True):
        assert torch.equal(latent, old)


def test_a_run_that_was_stopped_learns_on(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "LOOK", 60)
    whole, first, second = (run_of(RECIPE, text, "cuda") for _ in range(3))
    assert whole.train()
    assert not first.train(until=0.0) and first.iteration == 60
    first.save(tmp_path / "checkpoint.pt")
    second.load(tmp_path / "checkpoint.pt")
    assert all(group["lr"].is_cuda for group in second.optimizers.rest.param_groups)
    assert second.train()
    assert second.curve[-1]["measured"] == pytest.approx(whole.curve[-1]["measured"], rel=0.25)
    embedding = second.network.model.embed_tokens.weight
    before = embedding.clone()
    second.optimizers.set_rates(0.0)
    second._step()
    assert torch.equal(embedding, before), "the rate of the embedding, too, reaches the graph"


def test_a_scale_in_half_precision_is_rounded_in_compiled_steps_too() -> None:
    latent = torch.randn(5, 300, device="cuda")
    scale = adaste.GroupMean(128, half_precision=True)
    found = torch.compile(lambda x: scale.of(x) * 1.0, fullgraph=True)(latent)
    torch.testing.assert_close(found, scale.of(latent), rtol=1e-3, atol=0)
    assert torch.equal(found, found.half().float())
