"""Training that diverges ends with an error that says where, and what was saved before it stays."""

import dataclasses
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from adaste._util.signals import StoppedError
from adaste.paper.index import collect
from adaste.runs.checkpoint import Checkpoints
from adaste.runs.folder import RunFolder
from adaste.training.records import DivergedError
from support.small_runs import Listener, small_recipe, small_run, small_training


def test_a_gradient_that_is_not_finite_stops_with_epoch_step_and_names() -> None:
    training = small_training(small_recipe("full-precision"))

    def spoil() -> None:
        if (training.epoch, training.step) == (1, 3):
            with torch.no_grad():
                next(training.model.parameters()).fill_(math.nan)

    with pytest.raises(DivergedError, match=r"epoch 2, step 4: the gradient of .*weight.*learning rate") as caught:
        list(training.run(spoil))
    assert (caught.value.epoch, caught.value.step) == (1, 3)


def test_a_loss_that_is_not_finite_stops_even_if_all_gradients_are(monkeypatch) -> None:
    """And no state is given any more, so that the last good checkpoint stays."""
    monkeypatch.setattr("adaste.training.step.loss", _infinite_in_the_ninth_step(training_step := []))
    training = small_training(small_recipe("full-precision"))

    def look() -> None:
        if len(training_step) > 8:
            with pytest.raises(DivergedError, match="epoch 2, step 3"):
                training.state_dict()
        else:
            training.state_dict()

    with pytest.raises(DivergedError, match=r"epoch 2, step 3: the loss was not finite"):
        list(training.run(look))
    assert len(training_step) == 12, "noticed at the end of the epoch at the latest"


def _infinite_in_the_ninth_step(calls):
    from adaste.data.augment import loss

    def value(*arguments):
        calls.append(0)
        return loss(*arguments) + (math.inf if len(calls) == 9 else 0.0)

    return value


def test_a_learning_rate_that_is_far_too_large_is_reported() -> None:
    made = small_recipe("full-precision", epochs=20)
    made = dataclasses.replace(
        made,
        network=dataclasses.replace(made.network, norm_hidden=False, logits_norm=False),
        base=dataclasses.replace(made.base, lr=1e9, momentum=0.0),
    )
    with pytest.raises(DivergedError, match=r"training diverged in epoch \d+, step \d+"):
        list(small_training(made).run())


def test_latents_that_grow_without_end_are_reported_though_their_signs_are_weights() -> None:
    made = small_recipe("straight-through", epochs=20)
    made = dataclasses.replace(made, base=dataclasses.replace(made.base, lr=1e3, momentum=0.0, weight_decay=1.0))
    training = small_training(made)
    with pytest.raises(DivergedError, match=r"training diverged in epoch \d+: latent weights were not finite"):
        list(training.run())
    assert all(weight.isfinite().all() for weight in training.model.parameters())
    with pytest.raises(DivergedError, match="latent weights were not finite"):
        training.state_dict()


@pytest.mark.parametrize("kind", ["weight", "loss"])
def test_a_run_that_diverges_says_where_and_keeps_its_last_good_checkpoint(tmp_path, kind, monkeypatch) -> None:
    made = small_recipe("full-precision", epochs=3)
    if kind == "loss":
        monkeypatch.setattr("adaste.training.step.loss", _infinite(after := []))

    def spoil(training) -> None:
        if (training.epoch, training.step) == (1, 2):
            if kind == "weight":
                with torch.no_grad():
                    next(training.model.parameters()).fill_(math.nan)
            else:
                after.append(True)

    listener = Listener(spoil)
    what = "the loss was not finite" if kind == "loss" else r"the gradient of .*1\.weight"
    with pytest.raises(DivergedError, match=f"epoch 2, step 3: {what}"):
        small_run(made, tmp_path, observer=listener)
    newest, *_ = Checkpoints(tmp_path / "checkpoints").paths()
    assert newest.name.startswith("epoch-00001-step-000002-")
    assert RunFolder(tmp_path).read_result() is None
    assert len(RunFolder(tmp_path).read_records()) == 1


def test_a_run_that_failed_leaves_the_reason_until_it_goes_on(tmp_path) -> None:
    def spoil(training) -> None:
        if training.epoch == 1:
            with torch.no_grad():
                next(training.model.parameters()).fill_(math.nan)

    made = small_recipe("full-precision", epochs=3)
    with pytest.raises(DivergedError) as caught:
        small_run(made, tmp_path, observer=Listener(spoil))
    assert RunFolder(tmp_path).read_problem() == str(caught.value)
    (problem,) = collect(tmp_path).problems
    assert problem.reason == f"failed after 1 of 3 epochs: {caught.value}"

    def stop(training) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError):
        small_run(made, tmp_path, observer=Listener(stop))
    assert RunFolder(tmp_path).read_problem() is None


def test_the_reason_is_one_line_without_the_folder(tmp_path, monkeypatch) -> None:
    with pytest.raises(ValueError), RunFolder(tmp_path).report_failure():
        raise ValueError(f"{tmp_path}/checkpoints is damaged\nand more")
    assert (tmp_path / "problem.txt").read_text() == "checkpoints is damaged\n"
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(ValueError), RunFolder(Path(tmp_path.name)).report_failure():
        raise ValueError(f"{tmp_path}/checkpoints is damaged")  # told by its whole path
    assert RunFolder(tmp_path).read_problem() == "checkpoints is damaged"
    with pytest.raises(RuntimeError), RunFolder(tmp_path).report_failure():
        raise RuntimeError
    assert RunFolder(tmp_path).read_problem() == "RuntimeError"


def _infinite(after: list[bool]) -> Callable[..., Any]:
    from adaste.data.augment import loss

    def value(*arguments: Any) -> Any:
        return loss(*arguments) + (math.inf if after else 0.0)

    return value
