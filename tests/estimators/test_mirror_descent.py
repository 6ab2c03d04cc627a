"""Mirror descent: kept in the dual, kept in the primal, and tanh against softmax."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given

import adaste
from support.estimators import Training, column, many, pairs, slopes, weights

BASES = {
    "SGD": lambda groups: torch.optim.SGD(groups, lr=0.1),
    "SGD with momentum": lambda groups: torch.optim.SGD(groups, lr=0.03, momentum=0.9),
    "Adam": lambda groups: torch.optim.Adam(groups, lr=0.05),
}
GROWING = adaste.Steps(values=(1.0, 1.7, 3.0), ticks=(4, 9))


def beta_at(step: int) -> float:
    return 1.0 if step < 4 else 1.7 if step < 9 else 3.0


def gradients(steps: int, size: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(size, generator=generator, dtype=torch.float64) for _ in range(steps)]


START = torch.linspace(-0.9, 0.9, 12, dtype=torch.float64)


class HandmadeAdam:
    """lr m_hat / (sqrt(v_hat) + eps) for one number after the other."""

    def __init__(self, size: int, lr: float) -> None:
        self.first, self.second, self.lr = [0.0] * size, [0.0] * size, lr

    def move(self, i: int, g: float, step: int) -> float:
        self.first[i] = 0.9 * self.first[i] + 0.1 * g
        self.second[i] = 0.999 * self.second[i] + 0.001 * g * g
        mean = self.first[i] / (1 - 0.9**step)
        return self.lr * mean / (math.sqrt(self.second[i] / (1 - 0.999**step)) + 1e-8)


@many
@given(pairs)
def test_stable_form_passes_the_gradient_and_maps_the_dual_point(cases):
    estimator = adaste.MirrorDescent(beta=2.5)
    assert slopes(estimator, cases) == [g for _, g in cases]
    thetas = [theta for theta, _ in cases]
    assert weights(estimator, thetas) == pytest.approx([math.tanh(2.5 * theta) for theta in thetas], rel=1e-12)


def test_stable_form_is_adam_on_the_dual_point():
    training = Training(START, adaste.MirrorDescent(beta=GROWING), BASES["Adam"])
    theta, adam = START.tolist(), HandmadeAdam(12, lr=0.05)
    assert training.weight.tolist() == pytest.approx([math.tanh(x) for x in theta])
    for step, grad in enumerate(gradients(20, 12)):
        theta = [x - adam.move(i, g, step + 1) for i, (x, g) in enumerate(zip(theta, grad.tolist(), strict=True))]
        expected = [math.tanh(beta_at(step + 1) * x) for x in theta]
        assert training.step(grad).tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert training.latent.tolist() == pytest.approx(theta, rel=1e-9)


def test_unstable_tanh_is_the_published_multiplicative_update_under_adam():
    estimator = adaste.MirrorDescent(adaste.TanhMirror(), stable=False, beta=GROWING)
    training = Training(START, estimator, BASES["Adam"])
    w, adam = [math.tanh(x) for x in START.tolist()], HandmadeAdam(12, lr=0.05)
    assert training.weight.tolist() == pytest.approx(w)
    for step, grad in enumerate(gradients(30, 12)):
        for i, g in enumerate(grad.tolist()):
            odds = (1 + w[i]) / (1 - w[i] + 1e-20) * math.exp(-2 * beta_at(step) * adam.move(i, g, step + 1))
            w[i] = (odds - 1) / (odds + 1 + 1e-20)
        assert training.step(grad).tolist() == pytest.approx(w, rel=1e-8, abs=1e-11)
    assert max(abs(a - math.tanh(b)) for a, b in zip(w, START.tolist(), strict=True)) > 0.2


def test_unstable_softmax_is_the_published_multiplicative_update_under_adam():
    estimator = adaste.MirrorDescent(adaste.SoftmaxMirror(), stable=False, beta=GROWING)
    training = Training(START, estimator, BASES["Adam"])
    p = []
    for x in START.tolist():
        minus, plus = math.exp(-x), math.exp(x)
        p.append([minus / (minus + plus), plus / (minus + plus)])
    adam = HandmadeAdam(24, lr=0.05)
    for step, grad in enumerate(gradients(30, 12)):
        for i, g in enumerate(grad.tolist()):
            z = [-beta_at(step) * adam.move(2 * i + k, pull, step + 1) for k, pull in enumerate((-g, g))]
            raised = [share * (math.exp(value - max(z)) + 1e-20) for share, value in zip(p[i], z, strict=True)]
            p[i] = [value / sum(raised) for value in raised]
        expected = [plus - minus for minus, plus in p]
        assert training.step(grad).tolist() == pytest.approx(expected, rel=1e-8, abs=1e-11)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("stable", [True, False])
def test_tanh_and_softmax_give_the_same_weights_from_the_same_start(base, stable):
    one = Training(START, adaste.MirrorDescent(adaste.TanhMirror(), stable, GROWING), BASES[base])
    two = Training(START, adaste.MirrorDescent(adaste.SoftmaxMirror(), stable, GROWING), BASES[base])
    assert torch.allclose(one.weight, two.weight, rtol=1e-14)
    for grad in gradients(30, 12):
        one.step(grad)
        two.step(grad)
        assert torch.allclose(one.weight, two.weight, rtol=1e-7, atol=1e-9)
    assert two.latent.shape == (12, 2)
    assert not torch.allclose(one.weight, torch.tanh(START), atol=0.1)


@pytest.mark.parametrize("base", ["SGD", "Adam"])
def test_unstable_form_with_constant_beta_moves_the_dual_point_by_beta_times_the_step(base):
    one = Training(START, adaste.MirrorDescent(stable=False, beta=3.0), BASES[base])
    dual, adam = START.tolist(), HandmadeAdam(12, lr=0.05)
    for step, grad in enumerate(gradients(15, 12)):
        for i, g in enumerate(grad.tolist()):
            dual[i] -= 3.0 * (adam.move(i, g, step + 1) if base == "Adam" else 0.1 * g)
        weight = one.step(grad)
    assert weight.tolist() == pytest.approx([math.tanh(x) for x in dual], rel=1e-7, abs=1e-10)


def test_unstable_form_with_a_growing_beta_is_an_exponential_average_of_steps():
    """dual(w) / beta <- (1 / r) dual(w) / beta - step, where beta grows by the factor r at every step."""
    factor, steps, small = 1.1, 20, 1e-3
    growing = adaste.Geometric(start=1.0, stop=factor**steps, length=steps)
    training = Training(
        START, adaste.MirrorDescent(stable=False, beta=growing), lambda groups: torch.optim.SGD(groups, lr=small)
    )
    average = START.clone()
    for step, grad in enumerate(gradients(steps, 12)):
        average = average / (factor if step else 1.0) - small * grad
        training.step(grad)
        dual = torch.atanh(training.weight.detach())
        torch.testing.assert_close(dual / factor**step, average, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mirror", [adaste.TanhMirror(), adaste.SoftmaxMirror()])
def test_unstable_form_forgets_how_far_a_saturated_weight_had_gone(mirror):
    far = column([60.0, -60.0])
    base = lambda groups: torch.optim.SGD(groups, lr=50.0)  # noqa: E731
    stable = Training(far, adaste.MirrorDescent(mirror), base)
    unstable = Training(far, adaste.MirrorDescent(mirror, stable=False), base)
    grad = column([1.0, -1.0])
    assert stable.step(grad).tolist() == pytest.approx([1.0, -1.0])
    # What is left of 60 is 9 (tanh) or 44 (softmax): one step of 50 brings both weights to the other side.
    weight = unstable.step(grad)
    assert torch.isfinite(weight).all()
    assert (weight.sign() == column([-1.0, 1.0])).all()


def published_in_float32(w: np.ndarray, move: np.ndarray) -> np.ndarray:
    """(1 + w) / (1 - w) is multiplied by exp(-2 move)."""
    one, tiny = np.float32(1), np.float32(1e-20)
    odds = (one + w) / (one - w + tiny) * np.exp(np.float32(-2) * move)
    return (odds - one) / (odds + one + tiny)


def test_unstable_tanh_of_single_precision_is_the_published_update_as_float32_computes_it():
    """(1 + w) / (1 - w + 1e-20) is 0 at w = -1 and 2e20 at w = 1: steps below 15 never leave either end."""
    start, beta, rate = torch.linspace(-2, 2, 41), 40.0, 0.05
    training = Training(
        start,
        adaste.MirrorDescent(stable=False, beta=beta, absorbing=True, single_precision=True),
        lambda groups: torch.optim.SGD(groups, lr=rate),
    )
    w = np.tanh(start.numpy())
    random = torch.Generator().manual_seed(0)
    for _ in range(200):
        grad = torch.randn(41, generator=random)
        w = published_in_float32(w, np.float32(beta * rate) * grad.numpy())
        weight = training.step(grad)
    assert (np.abs(w) == 1).all()
    assert (weight.abs() == 1).all()
    # Their sums and quotients are rounded, too: a weight may be caught at the other end.
    assert (w == weight.numpy()).mean() > 0.95


def test_mirrors_reach_as_far_as_float32_tells_a_weight_from_its_end():
    tanh, softmax = adaste.TanhMirror.reach, adaste.SoftmaxMirror.reach
    assert np.float32(math.tanh(tanh * (1 - 1e-6))) < 1 == np.float32(math.tanh(tanh * (1 + 1e-6)))
    assert math.exp(-2 * softmax) == pytest.approx(float(np.finfo(np.float32).tiny), rel=1e-9, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "absorbed"), [(0.01, 0.0), (0.03, 0.0), (0.3, 1.0)])
def test_unstable_tanh_of_single_precision_stops_short_of_an_end_that_small_steps_do_not_reach(step, absorbed):
    """The last digits of 1 - w swallow small steps: only large ones take a weight to +-1, where it stays."""
    start = torch.cat((torch.full((200,), 7.0), torch.full((200,), -7.0)))
    training = Training(
        start,
        adaste.MirrorDescent(stable=False, absorbing=True, single_precision=True),
        lambda groups: torch.optim.SGD(groups, lr=step),
    )
    w = np.tanh(start.numpy())
    random = torch.Generator().manual_seed(0)
    for _ in range(1000):
        grad = 0.3 * torch.randn(400, generator=random) - 0.3 * start.sign()  # outwards on the whole
        w = published_in_float32(w, np.float32(step) * grad.numpy())
        weight = training.step(grad).numpy()
    for ended in (np.abs(w), np.abs(weight)):
        assert (ended == 1).mean() == absorbed
    gap, theirs = 1 - np.abs(weight), 1 - np.abs(w)
    assert np.median(theirs) / 2 <= np.median(gap) <= 2 * np.median(theirs)


@pytest.mark.parametrize("mirror", [adaste.TanhMirror(), adaste.SoftmaxMirror()])
def test_an_absorbed_weight_never_moves_again_and_others_do(mirror):
    estimator = adaste.MirrorDescent(mirror, stable=False, absorbing=True)
    training = Training(column([60.0, -60.0, 1.0]), estimator, lambda groups: torch.optim.SGD(groups, lr=10.0))
    for _ in range(100):
        weight = training.step(column([1.0, -1.0, 1.0]))
    assert weight.flatten().tolist() == [1.0, -1.0, -1.0]
    assert torch.isfinite(training.latent).all()


@pytest.mark.parametrize("name", ["absorbing", "single_precision"])
def test_the_stable_form_forgets_nothing_and_so_refuses_to(name):
    with pytest.raises(ValueError, match=f"{name} is of the unstable form"):
        adaste.MirrorDescent(**{name: True})


@pytest.mark.slow
@pytest.mark.parametrize(("mirror", "lost"), [(adaste.TanhMirror(), True), (adaste.SoftmaxMirror(), False)])
def test_single_precision_loses_small_steps_of_a_tanh_near_its_ends_and_none_of_a_softmax(mirror, lost):
    moved = []
    for rounds in (False, True):
        estimator = adaste.MirrorDescent(mirror, stable=False, single_precision=rounds)
        start = torch.tensor([7.0, -7.0, 1.0])
        training = Training(start, estimator, lambda groups: torch.optim.SGD(groups, lr=1e-3))
        for _ in range(500):
            training.step(start.sign())  # inwards
        moved.append((estimator.position(training.latent) - start).abs())
    torch.testing.assert_close(moved[0], torch.full((3,), 0.5), rtol=1e-3, atol=0.0)
    torch.testing.assert_close(moved[1][2], moved[0][2], rtol=1e-3, atol=0.0)
    assert (moved[1][:2] < 0.1).all() if lost else torch.equal(moved[1], moved[0])


@pytest.mark.parametrize("mirror", [adaste.TanhMirror(), adaste.SoftmaxMirror()])
@pytest.mark.parametrize("stable", [True, False])
def test_binarized_weights_are_the_signs_of_the_dual_point(mirror, stable):
    training = Training(START, adaste.MirrorDescent(mirror, stable), BASES["SGD"])
    for grad in gradients(10, 12):
        training.step(grad)
    soft = training.weight
    with training.optimizer.binarized():
        assert torch.equal(training.weight, torch.where(soft >= 0, 1.0, -1.0).double())
    assert torch.equal(training.weight, soft)
