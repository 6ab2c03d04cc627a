"""AdaSTE with s = tanh, as the chain rule at a shifted point (eq. mod_chain_rule) and as mirror descent (appendix).

By the mean value theorem, (tanh theta - tanh(theta - x)) / x = tanh'(theta - h) for some h between 0 and x: AdaSTE's
update is the chain rule with the inner derivative taken at a shifted point. For tanh, h has a closed form. Only at the
spacing with the steepest slope may h be x itself, which is the case the paper's appendix writes down.

tanh is split as w = s_2(u), u = s_1(theta), such that s_2'(u) = tanh'(theta - h). Then the update

    theta <- theta - eta g tanh'(theta - h)

is one step of mirror descent on l(s_2(u)) with the mirror map grad Phi = s_1^-1:

    u <- argmin_v  D_Phi(v, u) / eta + v d/du l(s_2(u)).

The shift h, and with it the metric Phi'', depends on the gradient: it is `mean_shift(theta, beta g)`, and beta g itself
where beta makes the slope stationary.

Legend: theta latent (the dual point), u intermediate weight (the primal point), w weight, g = dl/dw, beta spacing,
x = beta g, h shift, eta learning rate, D_Phi Bregman divergence.
"""

import math

import numpy as np
import torch
from torch import Tensor

BISECTIONS = 80


def derivative(latent: Tensor) -> Tensor:
    """tanh'(theta) = 1 / cosh(theta)^2."""
    return 1 / torch.cosh(latent) ** 2


def mean_slope(latent: Tensor, distance: Tensor) -> Tensor:
    """(tanh theta - tanh(theta - x)) / x = tanh(x) / x (1 - tanh theta tanh(theta - x)), which keeps its digits."""
    ratio = torch.where(distance == 0, 1.0, torch.tanh(distance) / distance)
    return ratio * (1 - torch.tanh(latent) * torch.tanh(latent - distance))


def mean_shift(latent: Tensor, distance: Tensor) -> Tensor:
    """An h between 0 and x with tanh'(theta - h) = `mean_slope(theta, x)`.

    tanh' is even, so theta - h is +-asinh sqrt(1 / slope - 1). Both may lie between theta and theta - x; the one on the
    side of the middle always does, and is taken.
    """
    slope = mean_slope(latent, distance)
    size = torch.asinh(torch.sqrt((1 / slope - 1).clamp(min=0)))
    point = torch.copysign(size, 2 * latent - distance)
    return torch.where(distance == 0, 0.0, latent - point)


def tangent_distance(latent: Tensor) -> Tensor:
    """The x = beta g of the spacing with the steepest slope, for a gradient that pulls towards zero (theta g > 0).

    There the chord from theta ends as a tangent: the slope is stationary in beta, and h = x is a valid shift. With
    x = sign(theta) (|theta| + a), a > 0 is the one root of (|theta| + a) tanh'(a) = tanh |theta| + tanh a.
    """
    size = latent.abs()
    low, high = torch.zeros_like(size), size.clone()  # the tangent ends nearer to zero than it starts
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        before = (size + middle) * derivative(middle) > torch.tanh(size) + torch.tanh(middle)
        low, high = torch.where(before, middle, low), torch.where(before, high, middle)
    return torch.copysign(size + (low + high) / 2, latent)


NEWTON_STEPS = 60
QUADRATURE_POINTS = 64


def inverse_outer(weight: Tensor, shift: Tensor) -> Tensor:
    """s_2^-1(w) = (e^2h log(1 + w) - e^-2h log(1 - w)) / 2 - sinh(h)^2 w, as printed; atanh(w) for h = 0."""
    logs = torch.exp(2 * shift) * torch.log1p(weight) - torch.exp(-2 * shift) * torch.log1p(-weight)
    return logs / 2 - torch.sinh(shift) ** 2 * weight


def inner(latent: Tensor, shift: Tensor) -> Tensor:
    """s_1(theta) = s_2^-1(tanh theta) = theta cosh 2h - log(cosh theta) sinh 2h - tanh(theta) sinh(h)^2.

    The paper calls s_1 "a non-interpretable expression". It is a line of slope cosh 2h, bent: its slope
    (cosh(theta - h) / cosh theta)^2 goes from e^2h far on the left to e^-2h far on the right.
    """
    size = latent.abs()
    log_cosh = size + torch.log1p(torch.exp(-2 * size)) - math.log(2)
    bent = torch.cosh(2 * shift) * latent - torch.sinh(2 * shift) * log_cosh
    return bent - torch.sinh(shift) ** 2 * torch.tanh(latent)


def inner_slope(latent: Tensor, shift: Tensor) -> Tensor:
    """s_1'(theta) = (cosh h - tanh(theta) sinh h)^2."""
    return (torch.cosh(shift) - torch.tanh(latent) * torch.sinh(shift)) ** 2


def metric(latent: Tensor, shift: Tensor) -> Tensor:
    """Phi''(u) = 1 / s_1'(theta), at the u that belongs to theta: what a unit of u costs."""
    return 1 / inner_slope(latent, shift)


def mirror_map(primal: Tensor, shift: Tensor) -> Tensor:
    """The mirror map grad Phi(u) = s_1^-1(u): the theta that belongs to u, by Newton's method.

    s_1 increases and bends one way only (concave for h > 0, convex for h < 0), and its slope is bounded away from zero
    and infinity: Newton's method converges from anywhere.
    """
    latent = torch.zeros_like(primal)
    for _ in range(NEWTON_STEPS):
        latent = latent - (inner(latent, shift) - primal) / inner_slope(latent, shift)
    return latent


def divergence(candidate: Tensor, primal: Tensor, shift: Tensor) -> Tensor:
    """D_Phi(v, u) = Phi(v) - Phi(u) - Phi'(u) (v - u), by Gauss-Legendre quadrature.

    In the dual it is the integral of (t - theta_u) s_1'(t) from theta_u to theta_v. A closed form needs dilogarithms.
    """
    start, stop = mirror_map(primal, shift), mirror_map(candidate, shift)
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(QUADRATURE_POINTS))
    length = stop - start
    steps = (nodes + 1) / 2 * length.unsqueeze(-1)
    integrand = steps * inner_slope(start.unsqueeze(-1) + steps, shift.unsqueeze(-1))
    return (integrand * weights).sum(-1) * length / 2


def mirror_step(primal: Tensor, grad: Tensor, shift: Tensor, eta: float) -> Tensor:
    """One step of mirror descent: the dual point grad Phi(u) moves against the gradient g s_2'(u) of l(s_2(u))."""
    dual = mirror_map(primal, shift)
    outer_slope = derivative(dual - shift)
    return inner(dual - eta * grad * outer_slope, shift)
