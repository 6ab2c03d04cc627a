"""AdaSTE as mirror descent for s = tanh: the appendix's construction, with both maps in closed form.

tanh is split as w = s_2(u), u = s_1(theta), such that s_2'(u) = tanh'(theta - h). Then the update

    theta <- theta - eta g tanh'(theta - h)

is one step of mirror descent on l(s_2(u)) with the mirror map grad Phi = s_1^-1:

    u <- argmin_v  D_Phi(v, u) / eta + v d/du l(s_2(u)).

The shift h, and with it the metric Phi'', depends on the gradient: it is `chain_rule.mean_shift(theta, beta g)`, and
beta g itself where beta makes the slope stationary.

Legend: theta latent (the dual point), u intermediate weight (the primal point), w weight, g = dl/dw, h shift, eta
learning rate, D_Phi Bregman divergence.
"""

import math

import numpy as np
import torch
from torch import Tensor

from adaste.paper.mathematics import chain_rule

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
    outer_slope = chain_rule.derivative(dual - shift)
    return inner(dual - eta * grad * outer_slope, shift)
