"""The examples of language models train, write files that gguf reads, and go on from a checkpoint exactly."""

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from support.language_models import transformers
from support.pages import ROOT

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")

pytestmark = pytest.mark.slow

CONTENT = b"the cat sat on the mat, the dog ran.\n" * 900


@pytest.fixture(autouse=True)
def as_programs_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")


def kinds_in(path: Path) -> dict[str, str]:
    return {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(path).tensors}


def test_the_own_loop_trains_and_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    reached = import_module("language_model").main(tmp_path / "model.gguf", CONTENT, steps=30, batch=4)
    assert reached < 3.0, "guessing would be 5.5"
    assert f"{reached:.3f} nats per byte with one-bit weights" in capsys.readouterr().out
    kinds = kinds_in(tmp_path / "model.gguf")
    assert kinds["blk.3.attn_q.weight"] == "Q1_0" and kinds["token_embd.weight"] == "F16"


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        ("language_model.py", ["model.bin"], "the file must end in .gguf and its folder exist, got model.bin"),
        ("language_model.py", ["none/model.gguf"], "got none/model.gguf"),
        ("language_model.py", ["model.gguf", "--text", "short.txt"], "needs 2,580 bytes or more, short.txt has 3"),
        ("complete_gguf.py", ["model.gguf", "def "], "there is no file model.gguf"),
    ],
)
def test_wrong_arguments_are_refused_before_training(
    program: str, arguments: list[str], message: str, tmp_path: Path
) -> None:
    if program == "complete_gguf.py":
        pytest.importorskip("xllamacpp")
    (tmp_path / "short.txt").write_text("abc")
    command = [sys.executable, str(ROOT / "examples" / program), *arguments]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2 and message in ended.stderr
    assert "step 0" not in ended.stdout


def test_the_text_that_everybody_has_is_long_enough() -> None:
    assert len(import_module("language_model").source_of_python()) > 2_000_000


class StopAt(transformers.TrainerCallback):
    """Ends training after some steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, arguments: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = state.global_step >= self.step


def test_a_trainer_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    example = import_module("hf_trainer")

    def trained(folder: Path, stop: int | None = None, resume: bool = False) -> Any:
        trainer = example.trainer_for(folder, CONTENT, steps=8, batch=2, use_cpu=True, logging_steps=1)
        if stop is not None:
            trainer.add_callback(StopAt(stop))
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    whole = trained(tmp_path / "whole")
    trained(tmp_path / "stopped", stop=4)
    resumed = trained(tmp_path / "stopped", resume=True)
    assert resumed.state.global_step == 8
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    losses = [[row["eval_loss"] for row in each.state.log_history if "eval_loss" in row] for each in (whole, resumed)]
    assert losses[0] == losses[1] and len(losses[0]) == 4


def test_a_trainer_evaluates_the_weights_that_are_exported(tmp_path: Path) -> None:
    example = import_module("hf_trainer")
    trainer = example.trainer_for(tmp_path, CONTENT, steps=2, use_cpu=True)
    seen = []
    trainer.model.register_forward_pre_hook(lambda *_: seen.append(trainer.latent_optimizer._rounded))
    trainer.train()
    trainer.evaluate()
    assert seen.count(False) == 2 and seen.count(True) > 2, "two steps, and evaluations"


def test_a_run_that_is_through_or_of_another_length_is_not_continued(tmp_path: Path) -> None:
    example = import_module("hf_trainer")
    example.main(tmp_path, CONTENT, steps=2)
    with pytest.raises(SystemExit, match=r"has made its 2 steps; without .*checkpoint-2 it repeats"):
        example.main(tmp_path, CONTENT, steps=2)
    with pytest.raises(SystemExit, match="has a run of 2 steps"):
        example.main(tmp_path, CONTENT, steps=4)
    shutil.rmtree(tmp_path / "checkpoint-2")
    (tmp_path / "model.gguf").unlink()
    example.main(tmp_path, CONTENT, steps=2)
    assert (tmp_path / "model.gguf").exists()


def test_the_program_writes_the_network_it_has_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reached = import_module("hf_trainer").main(tmp_path, CONTENT, steps=4)
    assert kinds_in(tmp_path / "model.gguf")["blk.0.ffn_up.weight"] == "Q1_0"
    assert f"{reached:.3f} nats per byte with one-bit weights" in capsys.readouterr().out
