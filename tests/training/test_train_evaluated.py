"""Evaluation while training: of the weights as exported, on images apart, and training does not notice."""

import pytest

from adaste.training.batches import Streaming
from support.small_runs import (
    assert_same,
    small_data,
    small_recipe,
    small_training,
    stopping_at,
    timeless,
    weights_of,
)


def test_an_epoch_that_is_not_tested_has_no_accuracy_but_the_last_always_has() -> None:
    records = list(small_training(small_recipe(epochs=5, evaluate_every=2, holdout=10)).run())
    assert [record.test_accuracy is not None for record in records] == [False, True, False, True, True]
    assert [record.holdout_accuracy is not None for record in records] == [False, True, False, True, True]
    assert [record.deciding is not None for record in records] == [False, True, False, True, True]


def test_how_often_tests_are_made_does_not_change_training() -> None:
    one, other = small_training(small_recipe("pmf")), small_training(small_recipe("pmf", evaluate_every=3))
    list(one.run())
    list(other.run())
    assert_same(weights_of(one), weights_of(other))


@pytest.mark.parametrize("streaming", [False, True], ids=["resident", "streaming"])
@pytest.mark.parametrize("method", ["pmf", "adaste"])
def test_an_evaluation_in_the_middle_of_an_epoch_changes_nothing(method, streaming, monkeypatch) -> None:
    if streaming:
        monkeypatch.setattr("adaste.training.batches.SHARE_OF_MEMORY", 0.0)
    whole = small_training(small_recipe(method))
    wanted = timeless(list(whole.run()))
    training = small_training(small_recipe(method))
    assert isinstance(training.feed, Streaming) == streaming
    records = list(training.run(training.evaluate))
    assert timeless(records) == wanted
    assert_same(weights_of(training), weights_of(whole))


def test_an_evaluation_is_of_the_weights_as_exported() -> None:
    training = small_training(small_recipe("pmf"))
    stopping_at(training, 4)
    before = weights_of(training)
    with training.exported() as model:
        binary = [weight for name, weight in model.named_parameters() if weight.ndim > 1]
        assert all(bool((weight.abs() == 1).all()) for weight in binary)
    assert training.optimizer.is_soft()
    assert_same(weights_of(training), before)


def test_images_held_out_are_neither_trained_with_nor_chosen_by_seed() -> None:
    data = small_data()
    held = [small_training(small_recipe(holdout=30, seed=seed))._held_out.images for seed in (0, 1)]
    kept = small_training(small_recipe(holdout=30)).feed
    assert (held[0] == held[1]).all()
    assert kept.count == 70
    everything = {image.tobytes() for image in data.train.images}
    assert len(held[0]) == 30
    assert {image.tobytes() for image in held[0]} < everything
    assert {image.tobytes() for image in kept._images.numpy()} == everything - {image.tobytes() for image in held[0]}


def test_an_evaluation_on_images_held_out_needs_some() -> None:
    with pytest.raises(ValueError, match=r"holdout.*0"):
        small_training(small_recipe()).evaluate("holdout")
    with pytest.raises(ValueError, match=r"one of test, holdout, got 'tset'"):
        small_training(small_recipe()).evaluate("tset")
