"""Base optimizers as frozen descriptions."""

import dataclasses
import inspect

import pytest
import torch

from adaste.estimators.schedules import Cosine, Linear
from adaste.recipes.bases import SGD, Adam, AdamW, Base, RMSprop

EXAMPLES = [
    SGD(0.3, momentum=0.8, weight_decay=0.01, nesterov=True),
    SGD(0.3, momentum=0.8, dampening=0.5),
    Adam(0.02, betas=(0.7, 0.8), eps=1e-6, weight_decay=0.02),
    AdamW(0.02, betas=(0.7, 0.8), eps=1e-6, weight_decay=0.3),
    RMSprop(0.02, alpha=0.8, eps=1e-6, weight_decay=0.1, momentum=0.4, centered=True),
]


def parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros(3))


@pytest.mark.parametrize("base", EXAMPLES, ids=str)
def test_torch_gets_every_setting_under_its_own_name(base: Base) -> None:
    optimizer = base.make()([{"params": [parameter()]}])
    assert type(optimizer).__name__ == type(base).__name__
    for field in dataclasses.fields(base):
        assert optimizer.param_groups[0][field.name] == getattr(base, field.name)


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW, RMSprop])
def test_defaults_are_those_of_torch(kind: type[Base]) -> None:
    theirs = inspect.signature(getattr(torch.optim, kind.__name__)).parameters
    for field in dataclasses.fields(kind)[1:]:
        assert field.default == theirs[field.name].default


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_rates_may_be_written_as_whole_numbers(kind: type[Adam | AdamW]) -> None:
    optimizer = kind(1, betas=(0, 0.5), eps=0, weight_decay=0).make()([{"params": [weight := parameter()]}])
    weight.grad = torch.ones(3)
    optimizer.step()
    assert weight.tolist() == [-1.0, -1.0, -1.0]


@pytest.mark.parametrize("lr", [Cosine(start=0.4, stop=0.0, length=5), Linear(start=0.4, stop=1.0, length=5), 0.4])
def test_a_scheduled_rate_starts_at_its_first_value(lr: float | Cosine | Linear) -> None:
    assert SGD(lr).make()([{"params": [parameter()]}]).param_groups[0]["lr"] == 0.4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(-1.0), "lr must be at least 0"),
        (lambda: SGD("fast"), "lr must be a number or a Schedule, got 'fast'"),
        (lambda: SGD(float("inf")), "lr must be finite"),
        (lambda: SGD(0.1, momentum=-0.1), "momentum must be at least 0"),
        (lambda: SGD(0.1, nesterov=True), "nesterov needs momentum"),
        (lambda: SGD(0.1, momentum=0.9, dampening=0.1, nesterov=True), "no dampening"),
        (lambda: SGD(0.1, nesterov=1), "nesterov must be true or false"),
        (lambda: Adam(0.1, betas=(0.9, 1.0)), "each of the betas must be at least 0 and below 1"),
        (lambda: Adam(0.1, betas=(0.9,)), "betas must be a list of 2"),
        (lambda: AdamW(0.1, eps=-1.0), "eps must be at least 0"),
        (lambda: RMSprop(0.1, alpha=1.0), "alpha must be at least 0 and below 1"),
    ],
)
def test_bad_settings_are_refused_when_made(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()
