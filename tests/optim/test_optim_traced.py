"""LatentOptimizer inside a function that a user compiles: the same as outside of it.

The user's backend is "eager": what it traces runs with the very kernels of torch, so that results are equal to the bit.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adaste import AdaSTE, Geometric, LatentOptimizer
from adaste.optim.guards import NonFiniteGradientError
from support.latent_optimizers import BASES, make
from support.methods import batch, latents, small_model

pytestmark = pytest.mark.slow

STEPS = 6
traced = torch.compile(backend="eager")


def as_it_is(function: Callable) -> Callable:
    return function


def trained(
    *, whole: Callable = as_it_is, forward: Callable = as_it_is, closure: bool = False, **options
) -> tuple[nn.Module, LatentOptimizer]:
    """A network and its optimizer after some steps, of which `whole` may compile all or `forward` model and loss."""
    torch.compiler.reset()  # after a few versions of one function the compiler gives up, and would test nothing
    model = small_model()
    # Every step sees another mu: one that is not counted shows.
    optimizer = make(model, AdaSTE(mu=Geometric(start=1.0, stop=100.0, length=STEPS)), **options)

    @forward
    def loss_of(images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(model(images), labels)

    @whole
    def step(images: Tensor, labels: Tensor) -> Tensor:
        def backward() -> Tensor:
            optimizer.zero_grad()
            loss = loss_of(images, labels)
            loss.backward()
            return loss

        if closure:
            return optimizer.step(backward)
        loss = backward()
        optimizer.step()
        return loss

    for index in range(STEPS):
        step(*batch(index))
    return model, optimizer


def assert_same(one: tuple[nn.Module, LatentOptimizer], other: tuple[nn.Module, LatentOptimizer]) -> None:
    assert one[1].steps == other[1].steps == STEPS
    for expected, found in zip(one[0].parameters(), other[0].parameters(), strict=True):
        assert torch.equal(expected, found)
    for expected, found in zip(latents(one[1]), latents(other[1]), strict=True):
        assert torch.equal(expected, found)


@pytest.mark.parametrize("compiled", ["whole", "forward"])
@pytest.mark.parametrize("options", [{}, {"compile": True}, {"capturable": True}], ids=str)
def test_a_step_that_the_user_compiles_is_the_eager_one(compiled: str, options: dict[str, bool]) -> None:
    assert_same(trained(**options), trained(**options, **{compiled: traced}))


@pytest.mark.parametrize("base", ["Adam", "AdamW", "RMSprop", "SGD, foreach, maximize"])
def test_so_it_is_with_other_bases(base: str) -> None:
    assert_same(trained(base=BASES[base]), trained(base=BASES[base], whole=traced))


def test_so_it_is_with_a_closure() -> None:
    assert_same(trained(closure=True), trained(closure=True, whole=traced))


def test_a_gradient_that_is_not_finite_is_refused_there_too() -> None:
    model, optimizer = trained()
    before = [latent.clone() for latent in latents(optimizer)]

    @traced
    def step(images: Tensor) -> None:
        model(images).sum().backward()
        optimizer.step()

    with pytest.raises(NonFiniteGradientError):
        step(torch.full_like(batch(0)[0], torch.inf))
    assert optimizer.steps == STEPS
    assert all(torch.equal(old, new) for old, new in zip(before, latents(optimizer), strict=True))


def test_weights_are_rounded_inside_binarized_and_put_back_there_too() -> None:
    model, optimizer = trained()
    images, _ = batch(0)

    def rounded(images: Tensor, inside: Callable[[], None]) -> Tensor:
        optimizer.check_gradients()
        with torch.no_grad(), optimizer.binarized():
            inside()
            return model(images)

    before = [parameter.clone() for parameter in model.parameters()]
    assert torch.equal(traced(rounded)(images, lambda: None), rounded(images, lambda: None))
    with pytest.raises(RuntimeError, match=r"step\(\) inside binarized\(\)"):
        traced(rounded)(images, optimizer.step)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
