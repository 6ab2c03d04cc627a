"""What a LatentOptimizer cannot train, with nothing changed, or may train by mistake: a specific message."""

import copy
import warnings
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from adaste import AdaSTE, BinaryConnect, Estimator, FullPrecision, LatentOptimizer, Linear, binary_weights
from support.latent_optimizers import SGD, make
from support.methods import small_model


@pytest.mark.parametrize("averaging", [-0.1, 1.0, 1.5, float("nan"), "fast", Linear(start=0.5, stop=1.0, length=3)])
def test_averaging_outside_its_range_is_refused(averaging) -> None:
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="averaging must be"):
        make(model, averaging=averaging)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_something_else_than_an_estimator_is_refused() -> None:
    with pytest.raises(TypeError, match=r"estimator must be an Estimator.*'AdaSTE'"):
        make(small_model(), "AdaSTE")


@dataclass(frozen=True)
class Wrong(Estimator):
    """A method whose weights have not the shape of those of the network."""

    returned: Tensor | None

    def weight(self, latent: Tensor, previous: Tensor) -> Tensor:
        return self.returned  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("returned", "got"),
    [(torch.ones(()), r"a tensor of shape \(\)"), (torch.ones(1, 3), r"a tensor of shape \(1, 3\)"), (None, "None")],
)
def test_an_estimator_whose_weights_have_another_shape_is_refused(returned: Tensor | None, got: str) -> None:
    model = nn.Linear(3, 2, bias=False)
    before = model.weight.detach().clone()
    with pytest.raises(ValueError, match=rf"weight of Wrong.* the shape of the weights, \(2, 3\).*got {got}"):
        make(model, Wrong(returned))
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ("adam", r"base must make the optimizer.*partial\(torch\.optim\.Adam, lr=0\.01\).*'adam'; near it: Adam"),
        (torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1), "an SGD that is made already"),
        (None, "got None"),
        (torch.optim, "got <module"),
        (lambda: None, "cannot be called so: too many positional arguments"),
        (lambda groups, lr: torch.optim.SGD(groups, lr), "missing a required argument: 'lr'"),
        (lambda groups: None, "it returned None"),
    ],
    ids=["a name", "an optimizer", "nothing", "a module", "no argument", "a missing argument", "no result"],
)
def test_something_else_than_a_maker_of_optimizers_is_refused_with_what_to_give(base, words: str) -> None:
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(TypeError, match=words):
        make(model, base=base)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_base_optimizer_of_other_parameters_than_the_latents_is_refused() -> None:
    model = small_model()
    with pytest.raises(ValueError, match=r"an SGD of other parameters.*not model\.parameters\(\)"):
        make(model, base=lambda groups: torch.optim.SGD([{"params": model.parameters()}, *groups[1:]], lr=0.1))


@pytest.mark.parametrize("base", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_a_class_of_optimizers_is_a_base_with_its_default_rate(base) -> None:
    assert make(small_model(), base=base).param_groups[0]["lr"] == base([nn.Parameter(torch.zeros(1))]).defaults["lr"]


def test_a_weight_in_two_groups_is_refused_by_name() -> None:
    model = small_model()
    optimizer = LatentOptimizer([("stem", model[0].weight)], base=SGD, estimator=AdaSTE())
    with pytest.raises(ValueError, match="again is in the optimizer twice, also as stem"):
        optimizer.add_param_group({"params": [("again", model[0].weight)]})
    assert len(optimizer.param_groups) == len(optimizer.base.param_groups) == 1
    with pytest.raises(ValueError, match="twice"):
        LatentOptimizer([model[0].weight, model[0].weight], base=SGD, estimator=AdaSTE())


def test_a_set_of_parameters_is_refused_for_its_order_differs_from_run_to_run() -> None:
    model = small_model()
    with pytest.raises(TypeError, match="got a set: use a list"):
        LatentOptimizer([{"params": {model[0].weight, model[2].weight}}], base=SGD, estimator=BinaryConnect())


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64])
def test_parameters_that_are_not_real_are_refused(dtype: torch.dtype) -> None:
    parameter = nn.Parameter(torch.zeros(2, 2, dtype=dtype), requires_grad=False)
    with pytest.raises(TypeError, match=f"codes is {dtype}.*real floating-point"):
        LatentOptimizer([("codes", parameter)], base=SGD, estimator=AdaSTE())
    with pytest.raises(TypeError, match="must be a tensor, got str"):
        LatentOptimizer(["weight"], base=SGD, estimator=AdaSTE())


def test_weights_on_several_devices_cannot_be_captured() -> None:
    parameters = [nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(2, 2, device="meta"))]
    with pytest.raises(ValueError, match=r"one device, got \['cpu', 'meta'\]"):
        LatentOptimizer(parameters, base=SGD, estimator=BinaryConnect(), capturable=True)


WARNING = r"2 of 4 parameters .*fewer than 2 dimensions.*adaste\.binary_weights\(model\) leaves these real"


def test_all_parameters_of_a_network_are_taken_with_a_warning_that_says_what_to_use() -> None:
    with pytest.warns(UserWarning, match=WARNING) as made:
        optimizer = LatentOptimizer(small_model().parameters(), base=SGD, estimator=BinaryConnect())
    with pytest.warns(UserWarning, match=WARNING) as added:
        optimizer.add_param_group({"params": small_model().parameters()})
    assert [warning.filename for warning in (*made, *added)] == [__file__] * 2


@pytest.mark.parametrize(
    ("choose", "estimator"),
    [
        (binary_weights, BinaryConnect()),
        (lambda model: binary_weights(model, include="*"), BinaryConnect()),
        (lambda model: [{"lr": 0.5, **group} for group in binary_weights(model, include="*")], BinaryConnect()),
        (lambda model: model.parameters(), FullPrecision()),
        (lambda model: [model[0].bias], BinaryConnect()),
    ],
    ids=["by default", "everything", "everything, with a rate", "full precision", "vectors alone"],
)
def test_what_was_chosen_is_taken_without_a_word(choose, estimator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LatentOptimizer(choose(small_model()), base=SGD, estimator=estimator)
