"""What the guard remembers of gradients it cannot wait for."""

import pickle

import pytest
import torch

from adaste.optim.guards import GradientGuard, NonFiniteGradientError
from support.latent_optimizers import make
from support.methods import small_model

CPU = torch.device("cpu")


def test_the_worst_gradient_of_every_parameter_is_remembered_until_it_is_told() -> None:
    guard = GradientGuard()
    names = ["a", "b", "c"]
    guard._remember(CPU, torch.tensor([1.0, float("inf"), 2.0]), [0, 1, 2], 3)
    guard._remember(CPU, torch.tensor([3.0, 1.0]), [0, 1], 3)
    guard._remember(CPU, torch.tensor([float("nan")]), [3], 4)
    with pytest.raises(NonFiniteGradientError) as error:
        guard.raise_pending([*names, "d"])
    assert error.value.names == ["b", "d"]
    guard.raise_pending([*names, "d"])


def test_what_was_met_before_a_state_was_loaded_is_no_news() -> None:
    model = small_model()
    optimizer = make(model)
    state = optimizer.state_dict()
    # As on a GPU, where the news is not yet told.
    optimizer._guard._remember(CPU, torch.tensor([float("nan")]), [0], 1)
    optimizer.load_state_dict(state)
    optimizer.check_gradients()


def test_many_names_are_shortened() -> None:
    assert "and 3 more" in str(NonFiniteGradientError([f"layer{index}" for index in range(8)]))


def test_the_error_arrives_whole_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(NonFiniteGradientError(["a.weight", "b.weight"])))
    assert error.names == ["a.weight", "b.weight"]
    assert str(error).startswith("the gradient of a.weight, b.weight held NaN")
