"""Whole trainings against loops over single numbers, written from the equations: random gradients and schedules."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import adaste
from adaste.estimators import (
    PMF,
    AdaSTE,
    BayesBiNN,
    BinaryConnect,
    ExactSlope,
    FiniteDifference,
    FixedSpacing,
    MirrorDescent,
    ProxQuant,
    ReleasedSlope,
    SoftmaxMirror,
    StraightThrough,
)
from adaste.estimators.schedules import Constant, Cosine, Geometric, Linear, Schedule, Sigmoid, Steps
from support.estimators import few

pytestmark = pytest.mark.slow

STEPS = 9
WEIGHTS = 3


@dataclass
class Momentum:
    """SGD with momentum and decay on one number."""

    make = partial(torch.optim.SGD, lr=0.3, momentum=0.9, weight_decay=0.01)
    buffer: float | None = None

    def moved(self, x: float, grad: float) -> float:
        grad += 0.01 * x
        self.buffer = grad if self.buffer is None else 0.9 * self.buffer + grad
        return x - 0.3 * self.buffer


@dataclass
class Adam:
    """Adam on one number."""

    make = partial(torch.optim.Adam, lr=0.05)
    step, mean, square = 0, 0.0, 0.0

    def moved(self, x: float, grad: float) -> float:
        self.step += 1
        self.mean = 0.9 * self.mean + 0.1 * grad
        self.square = 0.999 * self.square + 0.001 * grad**2
        root = math.sqrt(self.square / (1 - 0.999**self.step))
        return x - 0.05 * self.mean / (1 - 0.9**self.step) / (root + 1e-8)


@dataclass
class Literal:
    """A method of one weight; `t` is the step, and a latent may be several numbers, each with a base of its own."""

    weight: Callable[[Any, int], float]
    gradient: Callable[[float, Any, float, int], Any] = lambda g, x, w, t: g
    latent: Callable[[float], Any] = lambda w: w
    carry: Callable[[Any, int], Any] = lambda x, t: x
    settle: Callable[[Any, float, int], Any] = lambda x, w, t: x
    numbers: int = field(default=1)

    def train(self, start: float, grads: list[float], base: Any, rate: Any) -> list[float]:
        x, bases, average, mass = self.latent(start), [base() for _ in range(self.numbers)], 0.0, 0.0
        weights = [self.weight(x, 0)]
        for t, g in enumerate(grads):
            kept = at(rate, t)
            mass = kept * mass + 1 - kept
            average += (g - average) * (1 - kept) / mass
            x = self.carry(x, t)
            d = self.gradient(average, x, weights[-1], t)
            x = bases[0].moved(x, d) if self.numbers == 1 else [b.moved(*p) for b, *p in zip(bases, x, d, strict=True)]
            x = self.settle(x, weights[-1], t)
            weights.append(self.weight(x, t + 1))
        return weights


def at(value: Any, t: int) -> float:
    """A schedule at a step, by its documented formula."""
    if not isinstance(value, Schedule):
        return value
    tick = t // value.every
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Steps):
        return [value.values[0], *(v for k, v in zip(value.ticks, value.values[1:], strict=True) if tick >= k)][-1]
    p = min(1.0, max(0.0, (tick - value.delay) / value.length))
    if isinstance(value, Geometric):
        return value.start ** (1 - p) * value.stop**p
    share = {Linear: p, Cosine: (1 - math.cos(math.pi * p)) / 2}.get(type(value))
    if share is None:
        low, here, high = (1 / (1 + math.exp(-value.steepness * q)) for q in (-0.5, p - 0.5, 0.5))
        share = (here - low) / (high - low)
    return value.start + (value.stop - value.start) * share


def between(low: float, high: float) -> st.SearchStrategy[Any]:
    """Numbers, or schedules that stay inside."""
    value, count = st.floats(low, high), st.integers(1, 5)
    kinds = [Linear, Cosine, Sigmoid] + [Geometric] * (low > 0)
    ramps = [st.builds(kind, start=value, stop=value, length=count, delay=count, every=count) for kind in kinds]
    jumps = st.builds(Steps, values=st.tuples(value, value, value), ticks=st.just((2, 5)), every=st.integers(1, 2))
    return st.one_of(value, st.builds(Constant, value=value), *ramps, jumps)


def sign(x: float) -> float:
    return 1.0 if x >= 0 else -1.0


def clip(x: float) -> float:
    return max(-1.0, min(1.0, x))


def adaste_literal(slope: str, mu: Any, alpha: float) -> Literal:
    """The double well, with the written-out pieces of the three slopes."""

    def parts(t: int) -> tuple[float, float, float, Callable[[float], float]]:
        m = at(mu, t)
        hard, c = m >= 1 / alpha, m * (1 + alpha)
        return m, c, 0.0 if hard else 1 - m * alpha, lambda size: 1.0 if hard else min(1.0, (size + c) / (1 + m))

    def gradient(g: float, x: float, w: float, t: int) -> float:
        m, c, r, s = parts(t)
        size, toward = abs(x), x * g > 0
        if slope == "printed":
            reach = max(2.0, size)
            if toward:
                return g * (s(size) + s(reach - size)) / reach
            return math.copysign(min(abs(g), max(0.0, r - size)) / (1 + m), g)
        if slope == "exact":
            if toward:
                return g * min(1.0, (s(size) + s(0.0)) / size)
            return g / (1 + m) if size < r else 0.0
        large = abs(g) > 1e-3
        if r == 0:
            return (g * min(0.5, 1 / size) if toward else 0.0) if large and size > 1e-3 else g
        if not large or size <= 1e-6 or (size < r and not toward):
            return g / (1 + m)
        if size > r:
            return g * min(0.5, (1 + 2 * m + m * alpha) / (1 + m) / size) if toward else 0.0
        return g * min(0.5, max(0.0, (2 * c - x) / (1 + m) / size))

    return Literal(lambda x, t: sign(x) * parts(t)[3](abs(x)), gradient)


def two_levels(beta: Any, released: bool) -> Literal:
    def weight(u: list[float], t: int) -> float:
        return math.tanh(at(beta, t) * (u[1] - u[0]) / 2)

    def gradient(g: float, u: list[float], w: float, t: int) -> list[float]:
        b, x = at(beta, t) * g, weight(u, t)
        if released:
            return [-b * (1 + x * (1 - x) / 2), b * (1 - x * (1 + x) / 2)]
        return [-b * (1 - x * x) / 2, b * (1 - x * x) / 2]

    return Literal(weight, gradient, latent=lambda w: [-w, w], numbers=2)


def proximal(strength: Any, freeze: int) -> Literal:
    def settle(x: float, w: float, t: int) -> float:
        if t >= freeze:
            return sign(w)
        away = abs(x) - 1
        return clip(sign(x) * (1 + math.copysign(max(0.0, abs(away) - at(strength, t)), away)))

    return Literal(lambda x, t: sign(x) if t >= freeze else x, settle=settle)


def quotient(s: Callable[[float, float], float], temperature: Any, beta: Any) -> Literal:
    def gradient(g: float, x: float, w: float, t: int) -> float:
        tau, b = at(temperature, t), at(beta, t)
        return (s(x, tau) - s(x - b * g, tau)) / b

    return Literal(lambda x, t: s(x, at(temperature, t)), gradient)


def bayes_literal(temperature: Any) -> Literal:
    def gradient(g: float, x: float, w: float, t: int) -> float:
        return 0.1 * (1 - w * w + 1e-10) / at(temperature, t) / (1 - math.tanh(x) ** 2 + 1e-10) * g + x - 0.25

    return Literal(lambda x, t: math.tanh(x / at(temperature, t)), gradient)


SLOPES = {"printed": adaste.PrintedSlope(), "exact": ExactSlope(), "released": ReleasedSlope()}
alphas = st.floats(0.005, 0.9)
METHODS = {
    **{
        f"AdaSTE, {name}": st.builds(
            lambda mu, alpha, name=name: (AdaSTE(mu, alpha, SLOPES[name]), adaste_literal(name, mu, alpha)),
            between(0.01, 200),
            alphas,
        )
        for name in SLOPES
    },
    "general form, tanh": st.builds(
        lambda tau, beta: (
            FiniteDifference(adaste.Tanh(tau), FixedSpacing(beta)),
            quotient(lambda x, tau: math.tanh(x / tau), tau, beta),
        ),
        between(0.1, 4),
        between(0.05, 3),
    ),
    "general form, hard tanh": st.builds(
        lambda tau, beta: (
            FiniteDifference(adaste.HardTanh(tau), FixedSpacing(beta)),
            quotient(lambda x, tau: clip(x / tau), tau, beta),
        ),
        between(0.1, 4),
        between(0.05, 3),
    ),
    "BinaryConnect": st.just((BinaryConnect(), Literal(lambda x, t: sign(x), settle=lambda x, w, t: clip(x)))),
    "straight-through": st.builds(
        lambda decay, window: (
            StraightThrough(decay=decay, window=window),
            Literal(lambda x, t: sign(x), lambda g, x, w, t: (g if abs(x) <= window else 0.0) + decay * x),
        ),
        st.floats(0, 2),
        st.floats(0.1, 2),
    ),
    "ProxQuant": st.builds(
        lambda strength, freeze: (
            ProxQuant(strength, Steps(values=(0.0, 1.0), ticks=(freeze,))),
            proximal(strength, freeze),
        ),
        between(0.0, 0.5),
        st.integers(0, STEPS),
    ),
    "PMF": st.builds(
        lambda beta, released: (PMF(beta, released), two_levels(beta, released)), between(0.1, 20), st.booleans()
    ),
    "MD-softmax-s": st.builds(
        lambda beta: (MirrorDescent(SoftmaxMirror(), beta=beta), Literal(lambda x, t: math.tanh(at(beta, t) * x))),
        between(0.1, 5),
    ),
    "MD-tanh": st.builds(
        lambda beta: (
            MirrorDescent(stable=False, beta=beta),
            Literal(
                lambda x, t: math.tanh(x),
                carry=lambda x, t: x / at(beta, t),
                settle=lambda x, w, t: x * at(beta, t),
            ),
        ),
        between(0.1, 2),
    ),
    "BayesBiNN": st.builds(
        lambda tau: (BayesBiNN(0.1, tau, noise=None, prior=0.25, start=None), bayes_literal(tau)), between(0.5, 3)
    ),
}

starts = st.floats(-3, 3).filter(lambda x: abs(x) > 1e-6)
gradients = st.one_of(st.floats(-2, 2), st.floats(-2e-3, 2e-3)).filter(lambda g: g == 0 or abs(g) > 1e-9)
bases = st.sampled_from([Momentum, Adam])


@pytest.mark.parametrize("method", list(METHODS.values()), ids=list(METHODS))
@few
@given(st.data())
def test_training_is_the_literal_loop(method: st.SearchStrategy[tuple[adaste.Estimator, Literal]], data: Any) -> None:
    estimator, literal = data.draw(method)
    base, rate = data.draw(bases), data.draw(between(0.0, 0.99))
    start = data.draw(st.lists(starts, min_size=WEIGHTS, max_size=WEIGHTS))
    grads = data.draw(st.lists(st.tuples(*[gradients] * WEIGHTS), min_size=1, max_size=STEPS))
    weight = nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = adaste.LatentOptimizer([weight], base=base.make, estimator=estimator, averaging=rate)
    found = [weight.tolist()]
    for grad in grads:
        weight.grad = torch.tensor(grad, dtype=torch.float64)
        optimizer.step()
        found.append(weight.tolist())
    wanted = [literal.train(x, [grad[place] for grad in grads], base, rate) for place, x in enumerate(start)]
    for seen, told in zip(zip(*found, strict=True), wanted, strict=True):
        assert list(seen) == pytest.approx(told, rel=1e-6, abs=1e-7)
