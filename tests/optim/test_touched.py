"""Weights that others have written into: a step that overwrites them says so, and nothing else does."""

import copy
import warnings
from dataclasses import dataclass

import pytest
import torch

import adaste
from support.latent_optimizers import make
from support.methods import Method, every_method, small_model, train

LOST = (
    r"changed 0\.weight and \d more, as model\.load_state_dict does: this is lost.*before its optimizer is made.*"
    r"go back to an earlier state.*copies of model\.state_dict\(\) and optimizer\.state_dict\(\)"
)


@pytest.fixture
def silent():
    """Every warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@every_method
@pytest.mark.parametrize("steps", [0, 2])
def test_a_network_loaded_without_its_optimizer_is_not_lost_in_silence(method: Method, steps: int) -> None:
    model = small_model()
    optimizer = method.optimizer(model)
    train(model, optimizer, range(steps))
    model.load_state_dict(small_model(seed=99).state_dict())
    with pytest.warns(UserWarning, match=LOST):
        train(model, optimizer, range(steps, steps + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        train(model, optimizer, range(steps + 1, steps + 2))


def test_binarized_does_not_hide_it_and_warnings_are_of_the_users_line() -> None:
    model, other = small_model(), small_model(seed=99)
    optimizer = make(model)
    model.load_state_dict(other.state_dict())
    with pytest.warns(UserWarning, match=LOST) as rounded, optimizer.binarized():
        pass
    assert torch.equal(model[0].weight, other[0].weight), "the loaded ones are put back"
    model.load_state_dict(other.state_dict())
    with pytest.warns(UserWarning, match=LOST) as stepped:
        optimizer.step()
    torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)  # has torch call the step through one frame more
    model.load_state_dict(other.state_dict())
    with pytest.warns(UserWarning, match=LOST) as scheduled:
        optimizer.step()
    assert [warning.filename for warning in (*rounded, *stepped, *scheduled)] == [__file__] * 3


@every_method
@pytest.mark.parametrize("order", [("model", "optimizer"), ("optimizer", "model")], ids=" first, then ".join)
@pytest.mark.usefixtures("silent")
def test_both_states_may_be_loaded_in_either_order(method: Method, order: tuple[str, str]) -> None:
    model = small_model()
    parts = {"model": model, "optimizer": method.optimizer(model)}
    train(model, parts["optimizer"], range(2))
    saved = {name: copy.deepcopy(part.state_dict()) for name, part in parts.items()}
    train(model, parts["optimizer"], range(2, 4))
    for name in order:
        parts[name].load_state_dict(saved[name])
    train(model, parts["optimizer"], range(2, 4))


@every_method
@pytest.mark.usefixtures("silent")
def test_weights_may_be_changed_for_a_while_and_put_back(method: Method) -> None:
    """As for averaged weights, exactly, or as sharpness-aware minimisation does, up to rounding."""
    model = small_model()
    optimizer = method.optimizer(model)
    train(model, optimizer, range(2))
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.05).sub_(0.05)
    train(model, optimizer, range(2, 3))
    kept = copy.deepcopy(model.state_dict())
    model.load_state_dict(small_model(seed=99).state_dict())
    model.load_state_dict(kept)
    with optimizer.binarized(), optimizer.binarized():
        pass
    train(model, optimizer, range(3, 4))


@dataclass(frozen=True)
class FromWeights(adaste.Estimator):
    """Goes on from the weights it finds."""

    def carry(self, latent, weight):
        return weight

    def weight(self, latent, previous):
        return latent.tanh()


@pytest.mark.usefixtures("silent")
def test_a_method_that_goes_on_from_the_weights_loses_none() -> None:
    model = small_model()
    optimizer = adaste.LatentOptimizer(
        [model[0].weight, model[2].weight], base=lambda groups: torch.optim.SGD(groups, lr=0.1), estimator=FromWeights()
    )
    model.load_state_dict(small_model(seed=99).state_dict())
    train(model, optimizer, range(1))
