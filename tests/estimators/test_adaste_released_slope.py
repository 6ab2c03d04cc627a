"""AdaSTE as the released code computes it: its factor, and the whole latent dynamics around it."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import adaste
from support.estimators import Training, alphas, column, gradients, latents, many, mus, signed, sized, slopes


def released_factor(theta: float, g: float, mu: float, alpha: float) -> float:
    size, gate = abs(theta), abs(g) > 1e-3
    if mu >= 1 / alpha:
        if not gate or size <= 1e-3:
            return 1.0
        return min(0.5, 1 / size) if theta * g > 0 else 0.0
    r, c = 1 - mu * alpha, mu * (1 + alpha)
    if gate and size > max(1e-6, r):
        return min(0.5, (1 + 2 * mu + mu * alpha) / ((1 + mu) * size)) if theta * g > 0 else 0.0
    if gate and 1e-6 < size < r and theta * g > 0:
        return max(0.0, min(0.5, (2 * c - theta) / ((1 + mu) * size)))  # theta and not |theta|, as released
    return 1 / (1 + mu)


some_gradients = gradients | signed(sized(-3.5, -2.5)) | st.sampled_from((1e-3, -1e-3))
some_latents = latents | signed(sized(-7, -2)) | st.sampled_from((1e-3, -1e-3, 1e-6))
some_pairs = st.lists(st.tuples(some_latents, some_gradients), min_size=1, max_size=12)


@many
@given(some_pairs, mus, alphas)
def test_slope_is_the_released_factor_times_the_gradient(cases, mu, alpha):
    estimator = adaste.AdaSTE(mu=mu, alpha=alpha, slope=adaste.ReleasedSlope())
    for (theta, g), d in zip(cases, slopes(estimator, cases), strict=True):
        assert d == pytest.approx(g * released_factor(theta, g, mu, alpha), rel=1e-12)


@pytest.mark.parametrize("mu", [0.01, 0.1, 0.3, 1.0, 20.0])
def test_slope_has_the_sign_slip_of_the_linear_part(mu):
    cases = [(theta / 64, g) for theta in range(-130, 131) for g in (-0.2, -5e-4, 5e-4, 0.2)]
    expected = [g * released_factor(theta, g, mu, 0.01) for theta, g in cases]
    assert slopes(adaste.AdaSTE(mu=mu, slope=adaste.ReleasedSlope()), cases) == pytest.approx(expected, rel=1e-12)


@many
@given(some_pairs, st.floats(0, 10))
def test_slope_at_the_scripts_final_mu_is_half_the_printed_one_inside_the_gate(cases, more):
    released = adaste.AdaSTE(mu=100 + more, alpha=0.01, slope=adaste.ReleasedSlope(threshold=0))
    for (theta, g), d in zip(cases, slopes(released, cases), strict=True):
        expected = g if abs(theta) <= 1e-3 else (g / max(2, abs(theta)) if theta * g > 0 else 0.0)
        assert d == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("mu", [0.01, 5.0, 50.0, 99.9, 100.0])
def test_slope_is_the_same_with_mu_in_a_tensor(mu):
    cases = [(theta / 16, g) for theta in range(-64, 65) for g in (-0.1, -1e-4, 1e-4, 0.1)]
    plain = adaste.AdaSTE(mu=mu, slope=adaste.ReleasedSlope())
    tensor = adaste.AdaSTE(mu=torch.tensor(mu, dtype=torch.float64), slope=adaste.ReleasedSlope())
    assert slopes(tensor, cases) == pytest.approx(slopes(plain, cases), rel=1e-12)
    latent = column(theta for theta, _ in cases)
    assert torch.allclose(tensor.weight(latent, latent), plain.weight(latent, latent), rtol=1e-12)


def test_small_gradients_pass_whole_where_large_ones_meet_the_gate():
    estimator = adaste.AdaSTE(slope=adaste.ReleasedSlope(threshold=0.01))
    assert slopes(estimator, [(8.0, 0.01), (8.0, -0.01), (8.0, 0.08), (8.0, -0.08)]) == [0.01, -0.01, 0.01, 0.0]


def small_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4, affine=False),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3, stride=2, bias=False),
        nn.BatchNorm2d(6, affine=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24, 5, bias=False),
        nn.BatchNorm1d(5, affine=False),
    ).double()


def backward(network: nn.Module, images: Tensor, labels: Tensor, loss_scale: float) -> None:
    network.zero_grad()
    (loss_scale * F.cross_entropy(network(images), labels)).backward()


@pytest.fixture
def one_thread():
    """Sums in one order, so that two equal networks have equal gradients."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@torch.no_grad()
def official_step(
    parameter: nn.Parameter, theta: Tensor, velocity: Tensor, *, lr: float, momentum: float, n: float, step: int
) -> None:
    """The released update by hand; `theta` and `velocity` change in place, the parameter becomes sign(theta)."""
    g = parameter.grad
    assert g is not None
    gate = (g.abs() > 1e-3) & (theta.abs() > 1e-3)
    inside = torch.where(theta * g > 0, torch.minimum(torch.full_like(theta, 0.5), 1 / theta.abs()), 0.0)
    f = torch.where(gate, inside, 1.0)
    velocity.copy_(momentum * velocity + (1 - momentum) * (n**2 * f * g + theta))
    theta.sub_(lr * velocity / (1 - momentum**step))
    parameter.copy_(torch.where(theta >= 0, 1.0, -1.0))


# The released factor 1 / |theta| makes steps near zero arbitrarily sensitive to rounding, the more so the larger N and
# the gradients are. With the published N a loss of 2% gives this narrow network the few gradients beyond the threshold
# that wide ones have; with N of a small dataset nearly all gradients are beyond it and latents stay where it acts.
@pytest.mark.slow
@pytest.mark.parametrize(("examples", "loss_scale", "gate_share"), [(45_000, 0.02, 0.01), (64, 1.0, 0.9)])
@pytest.mark.usefixtures("one_thread")
def test_clean_parametrisation_follows_the_official_dynamics_without_one_differing_sign(
    examples, loss_scale, gate_share
):
    steps, momentum, lr, eta = 400, 0.9, 3e-4, 0.1
    n = 10.0 * examples
    scale, decay = (1 - momentum) * lr * n**2 / eta, (1 - momentum) * lr / eta
    torch.manual_seed(3)
    images, labels = torch.randn(64, 1, 8, 8, dtype=torch.float64), torch.randint(0, 5, (64,))
    ours = small_network()
    official = copy.deepcopy(ours)

    states = []
    with torch.no_grad():
        for parameter in official.parameters():
            theta = torch.where(parameter >= 0, 10.0, -10.0).double()
            parameter.copy_(theta.sign())
            states.append((parameter, theta, torch.zeros_like(theta)))
    optimizer = adaste.LatentOptimizer(
        list(ours.parameters()),
        base=lambda groups: torch.optim.SGD(groups, lr=eta, momentum=momentum, weight_decay=decay),
        estimator=adaste.AdaSTE(mu=100, slope=adaste.ReleasedSlope(), unit=1 / scale, start=10 / scale),
    )

    flips = gated = 0
    for step in range(1, steps + 1):
        chosen = torch.randperm(64)[:16]
        cosine = (1 + math.cos(math.pi * step / steps)) / 2
        before = [parameter.detach().clone() for parameter in official.parameters()]
        backward(official, images[chosen], labels[chosen], loss_scale)
        for parameter, theta, velocity in states:
            gated += int((parameter.grad.abs() > 1e-3).sum())
            official_step(parameter, theta, velocity, lr=lr * cosine, momentum=momentum, n=n, step=step)
        backward(ours, images[chosen], labels[chosen], loss_scale)
        optimizer.param_groups[0]["lr"] = eta * cosine / (1 - momentum**step)
        optimizer.step()
        for old, theirs, mine in zip(before, official.parameters(), ours.parameters(), strict=True):
            flips += int((old != theirs).sum())
            assert torch.equal(mine, theirs), f"signs differ after step {step}"
    for (_, theta, _), parameter in zip(states, ours.parameters(), strict=True):
        latent = scale * optimizer.state[parameter]["latent"]
        assert torch.allclose(latent, theta, rtol=1e-4, atol=1e-4)
    assert flips > 300, "too quiet a run to show anything"
    assert gated > gate_share * steps * sum(theta.numel() for _, theta, _ in states), "the gate was hardly met"


def test_annealed_mu_moves_from_the_soft_to_the_binary_factor():
    estimator = adaste.AdaSTE(mu=adaste.Steps(values=(1.0, 100.0), ticks=(1,)), slope=adaste.ReleasedSlope())
    training = Training(column([0.25, -0.25]), estimator, lambda groups: torch.optim.SGD(groups, lr=1.0))
    small = column([5e-4, 5e-4])
    start = training.latent
    assert training.weight.tolist() == pytest.approx([(0.25 + 1.01) / 2, -(0.25 + 1.01) / 2])
    training.step(small)
    soft = training.latent
    assert (start - soft).tolist() == pytest.approx([2.5e-4, 2.5e-4])
    assert training.weight.tolist() == [1.0, -1.0]
    training.step(small)
    assert (soft - training.latent).tolist() == pytest.approx([5e-4, 5e-4])
