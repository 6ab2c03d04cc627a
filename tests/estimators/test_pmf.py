"""PMF: the softmax of two levels, its true Jacobian against autograd and the released one against its components."""

import math

import pytest
import torch
from hypothesis import given

import adaste
from support.estimators import Training, column, many, real, signed, sized


def soft(u_minus: float, u_plus: float, beta: float) -> tuple[float, float]:
    top = max(beta * u_minus, beta * u_plus)
    minus, plus = math.exp(beta * u_minus - top), math.exp(beta * u_plus - top)
    return minus / (minus + plus), plus / (minus + plus)


betas = sized(-1, 1)
FORMS = ("", "released", "original")


@many
@given(real(-3, 3), real(-3, 3), betas)
def test_weight_is_the_mean_level_under_the_softmax(u_minus, u_plus, beta):
    latent = column([u_minus, u_plus]).view(1, 2)
    minus, plus = soft(u_minus, u_plus, beta)
    assert adaste.PMF(beta).weight(latent, latent[:, 0]).item() == pytest.approx(plus - minus, abs=1e-13)


@many
@given(real(-3, 3), real(-3, 3), betas, signed(sized(-3, 1)))
def test_true_jacobian_is_what_autograd_finds_through_the_softmax(u_minus, u_plus, beta, g):
    latent = column([u_minus, u_plus]).view(1, 2).requires_grad_()
    weight = torch.softmax(beta * latent, dim=-1) @ column([-1.0, 1.0])
    (expected,) = torch.autograd.grad(g * weight.sum(), latent)
    d = adaste.PMF(beta).gradient(column([g]), latent.detach(), weight.detach())
    assert torch.allclose(d, expected, rtol=1e-9, atol=1e-14)


@many
@given(real(-3, 3), real(-3, 3), betas, signed(sized(-3, 1)))
def test_both_jacobians_have_their_written_out_components(u_minus, u_plus, beta, g):
    latent = column([u_minus, u_plus]).view(1, 2)
    minus, plus = soft(u_minus, u_plus, beta)
    t = plus - minus
    released = adaste.PMF(beta, released=True).gradient(column([g]), latent, column([t]))[0].tolist()
    assert released == pytest.approx([-beta * g * (1 + t * (1 - t) / 2), beta * g * (1 - t * (1 + t) / 2)], rel=1e-9)
    true = adaste.PMF(beta).gradient(column([g]), latent, column([t]))[0].tolist()
    assert true == pytest.approx([-beta * g * (1 - t * t) / 2, beta * g * (1 - t * t) / 2], rel=1e-6, abs=1e-13)


@many
@given(real(-3, 3), real(-3, 3), betas, signed(sized(-3, 1)))
def test_original_jacobian_is_the_released_one_at_the_softmax_of_the_softmax(u_minus, u_plus, beta, g):
    latent = column([u_minus, u_plus]).view(1, 2)
    minus, plus = soft(*soft(u_minus, u_plus, beta), beta)
    t = plus - minus
    original = adaste.PMF(beta, original=True).gradient(column([g]), latent, column([t]))[0].tolist()
    assert original == pytest.approx([-beta * g * (1 + t * (1 - t) / 2), beta * g * (1 - t * (1 + t) / 2)], rel=1e-9)


def test_original_jacobian_lets_more_pass_than_the_released_one_where_weights_are_saturated_and_beta_is_small():
    latent, grad = column([-30.0, 30.0]).view(1, 2), column([0.8])
    released, original = (adaste.PMF(**{name: True}).gradient(grad, latent, grad)[0] for name in FORMS[1:])
    minus, plus = soft(0.0, 1.0, 1.0)
    assert ((original[1] - original[0]) / 2).item() == pytest.approx(0.8 * (1 - (plus - minus) ** 2 / 2))
    assert original[1] - original[0] > 1.5 * (released[1] - released[0])


def test_the_two_published_jacobians_exclude_each_other():
    with pytest.raises(ValueError, match=r"md-bnn.*pmf.*exclude each other.*set one of them to False"):
        adaste.PMF(released=True, original=True)


def test_released_jacobian_survives_saturation_and_the_true_one_vanishes():
    latent, grad = column([-30.0, 30.0]).view(1, 2), column([0.8])
    assert adaste.PMF().gradient(grad, latent, grad).abs().max().item() < 1e-20
    released = adaste.PMF(released=True).gradient(grad, latent, grad)[0]
    assert ((released[1] - released[0]) / 2).item() == pytest.approx(0.4)


def test_latents_start_at_the_networks_weights_and_round_by_the_larger_level():
    weight = column([0.3, -0.4])
    latent = adaste.PMF(2.0).latent(weight)
    assert latent.tolist() == [[-0.3, 0.3], [0.4, -0.4]]
    assert adaste.PMF(2.0).weight(latent, weight).tolist() == pytest.approx([math.tanh(0.6), math.tanh(-0.8)])
    levels = column([0.9, 0.8, -2.0, -1.0]).view(2, 2)
    assert adaste.PMF().binarize(levels, weight).tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("form", FORMS)
def test_training_under_adam_follows_the_literal_two_level_loop(form):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(10, generator=generator, dtype=torch.float64)
    estimator = adaste.PMF(adaste.Geometric(start=1.0, stop=4.0, length=6, every=5), **({form: True} if form else {}))
    training = Training(start, estimator, lambda groups: torch.optim.Adam(groups, lr=0.05))
    u = [[-x, x] for x in start.tolist()]
    first = [[0.0, 0.0] for _ in u]
    second = [[0.0, 0.0] for _ in u]
    for step in range(40):
        beta = 4.0 ** min(1.0, (step // 5) / 6)
        following = 4.0 ** min(1.0, ((step + 1) // 5) / 6)
        grad = torch.randn(10, generator=generator, dtype=torch.float64)
        expected = []
        for i, g in enumerate(grad.tolist()):
            p = soft(u[i][0], u[i][1], beta)
            pull = (-g, g)
            if form == "original":
                p = soft(p[0], p[1], beta)
            mean = p[0] * pull[0] + p[1] * pull[1]
            for k in (0, 1):
                d = beta * ((pull[k] if form else p[k] * pull[k]) - p[k] * mean)
                first[i][k] = 0.9 * first[i][k] + 0.1 * d
                second[i][k] = 0.999 * second[i][k] + 0.001 * d * d
                spread = math.sqrt(second[i][k] / (1 - 0.999 ** (step + 1))) + 1e-8
                u[i][k] -= 0.05 * first[i][k] / (1 - 0.9 ** (step + 1)) / spread
            p = soft(u[i][0], u[i][1], following)
            expected.append(p[1] - p[0])
        assert training.step(grad).tolist() == pytest.approx(expected, rel=1e-8, abs=1e-10)
