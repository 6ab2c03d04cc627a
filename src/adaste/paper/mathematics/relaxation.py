"""The relaxed objective of the bilevel problem (eq. contrastive_L), its local model Q, and the steepest spacing.

The inner problem is w* = argmin_w E(w; theta) = s(theta) with E(w; theta) = G(w) - w theta. Its optimal value
reformulation, with multipliers 1/beta and the loss linearised at w*, is

    L(theta) = l(w*) + sum_j [ g_j (w^_j - w*_j) + (E(w^_j; theta_j) - E(w*_j; theta_j)) / beta_j ],

where w^ = s(theta - beta g) minimises beta g w + E(w; theta) (Proposition 1).

For the double well with mu alpha < 1 the spacing beta with the steepest slope is in the paper's second appendix. With
theta g > 0 there are two candidates: beta_0, just past the jump at zero, and beta_1, where the perturbed weight first
reaches +-1 on the other side. beta_1 wins exactly where |theta| > 1 + 2 mu + mu alpha. The paper recommends beta_0
throughout, "by visual inspection"; `worst_ratio` is how much that can cost.

Legend: s forward map, theta latent, w* weight, w^ perturbed weight, g = dl/dw at w*, beta spacing, eta learning rate,
G inner objective, r = 1 - mu alpha the end of the linear part, d = (w* - w^) / beta.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from adaste.estimators.adaste import FixedSpacing
from adaste.estimators.maps import DoubleWell, ForwardMap, same_sign
from adaste.estimators.schedules import Scalar, now

Loss = Callable[[Tensor], Tensor]
"""A differentiable function from the weights to one number."""


def inner_objective(forward: ForwardMap, weight: Tensor, latent: Tensor) -> Tensor:
    """E(w; theta) = G(w) - w theta, for each weight."""
    return forward.objective(weight) - weight * latent


def perturbed_weight(forward: ForwardMap, latent: Tensor, grad: Tensor, beta: Tensor) -> Tensor:
    """w^ = s(theta - beta g), Proposition 1."""
    return forward(latent - beta * grad)


def relaxed_objective(loss: Loss, forward: ForwardMap, latent: Tensor, beta: Tensor) -> Tensor:
    """L(theta), eq. contrastive_L. Never above l(s(theta)), and tends to it as beta -> 0."""
    weight = forward(latent)
    grad = _gradient(loss, weight)
    perturbed = perturbed_weight(forward, latent, grad, beta)
    cost = inner_objective(forward, perturbed, latent) - inner_objective(forward, weight, latent)
    return loss(weight) + (grad * (perturbed - weight) + cost / beta).sum()


def local_slope(forward: ForwardMap, latent: Tensor, grad: Tensor, beta: Tensor) -> Tensor:
    """The update (w* - w^) / beta: the gradient of L with g held fixed, because d/dtheta min_w E(w; theta) = -w*."""
    return (forward(latent) - perturbed_weight(forward, latent, grad, beta)) / beta


def dropped_slope(
    loss: Loss, forward: ForwardMap, latent: Tensor, beta: Tensor, derivative: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return the whole gradient of L minus `local_slope`: -s'(theta) l''(w*) (w* - w^), `derivative` being s'.

    It comes from g changing with theta. It is zero for a linear loss, and wherever s is flat: for mu alpha >= 1
    and a given beta, AdaSTE's update is the gradient of L wherever L has one.
    """
    weight = forward(latent)
    grad = _gradient(loss, weight)
    gap = weight - perturbed_weight(forward, latent, grad, beta)
    curved: Tensor = torch.autograd.functional.hvp(loss, weight, gap)[1]  # type: ignore[no-untyped-call]
    return -derivative(latent) * curved


def local_model(
    forward: ForwardMap, candidate: Tensor, latent: Tensor, grad: Tensor, beta: Tensor, eta: float
) -> Tensor:
    """Q(theta; theta_t) of each weight at the candidate theta; `latent` is theta_t and `grad` is g there."""
    weight, perturbed = forward(latent), perturbed_weight(forward, latent, grad, beta)
    cost = inner_objective(forward, perturbed, candidate) - inner_objective(forward, weight, candidate)
    return cost / beta + (candidate - latent) ** 2 / (2 * eta)


def local_minimiser(forward: ForwardMap, latent: Tensor, grad: Tensor, beta: Tensor, eta: float) -> Tensor:
    """Where Q is smallest: theta_t - eta (w* - w^) / beta, eq. theta_update."""
    return latent - eta * local_slope(forward, latent, grad, beta)


def _gradient(loss: Loss, weight: Tensor) -> Tensor:
    with torch.enable_grad():
        point = weight.detach().requires_grad_()
        (grad,) = torch.autograd.grad(loss(point), point)
    return grad


def slope(well: DoubleWell, latent: Tensor, grad: Tensor, beta: Tensor) -> Tensor:
    """The update d = (s(theta) - s(theta - beta g)) / beta."""
    return FixedSpacing(beta).slope(well, grad, latent)


def crossing_beta(latent: Tensor, grad: Tensor) -> Tensor:
    """beta_0 = |theta| / |g|: any larger beta crosses zero."""
    return (latent / grad).abs()


def saturating_beta(well: DoubleWell, latent: Tensor, grad: Tensor) -> Tensor:
    """beta_1 = (|theta| + r) / |g|: the smallest beta with w^ = +-1 beyond zero."""
    return (latent.abs() + well.linear_reach) / grad.abs()


def crossing_slope(well: DoubleWell, latent: Tensor, grad: Tensor) -> Tensor:
    """d_0 = g (s(|theta|) + s(0+)) / |theta|: the limit of the slope as beta falls to beta_0; for theta g > 0."""
    size = latent.abs()
    return grad * (well.magnitude(size) + well.jump) / size


def saturating_slope(well: DoubleWell, latent: Tensor, grad: Tensor) -> Tensor:
    """d_1 = g (s(|theta|) + 1) / (|theta| + r): the slope at beta_1; for theta g > 0."""
    size = latent.abs()
    return grad * (well.magnitude(size) + 1) / (size + well.linear_reach)


def switching_latent(well: DoubleWell) -> Scalar:
    """1 + 2 mu + mu alpha: beta_1 is the better one for larger |theta|, beta_0 for smaller."""
    mu = now(well.mu)
    return 1 + 2 * mu + mu * well.alpha


def steepest_beta(well: DoubleWell, latent: Tensor, grad: Tensor) -> Tensor:
    """The beta that maximises |d| (for beta_0: whose limit from above does).

    Where theta g < 0, every beta up to (r - |theta|) / |g| gives the same slope and the largest is returned; where no
    beta gives any slope, 1, as in eq. beta_choice.
    """
    _require_soft(well)
    beyond = latent.abs() > switching_latent(well)
    toward = torch.where(beyond, saturating_beta(well, latent, grad), crossing_beta(latent, grad))
    room = well.linear_reach - latent.abs()
    away = torch.where(room > 0, room / grad.abs(), 1.0)
    return torch.where(same_sign(latent, grad), toward, away)


def steepest_slope(well: DoubleWell, latent: Tensor, grad: Tensor) -> Tensor:
    """The update d at the steepest beta; unlike `ExactSlope(steepest=True)` not limited to |d| <= |g|."""
    _require_soft(well)
    beyond = latent.abs() > switching_latent(well)
    toward = torch.where(beyond, saturating_slope(well, latent, grad), crossing_slope(well, latent, grad))
    away = torch.where(latent.abs() < well.linear_reach, grad * well.slope, 0.0)
    return torch.where(same_sign(latent, grad), toward, away)


def worst_ratio(well: DoubleWell) -> Scalar:
    """2 (1 + mu) / (1 + 2 mu + mu alpha): the supremum over theta of the steepest slope over that of beta_0.

    d_1 / d_0 grows with |theta| beyond the switch, and this is its limit.
    """
    _require_soft(well)
    return 2 * (1 + now(well.mu)) / switching_latent(well)


def _require_soft(well: DoubleWell) -> None:
    if well.is_sign is True:
        raise ValueError(
            f"mu must be below 1/alpha = {1 / well.alpha:g} (from there on weights are +-1 and the slope has its "
            f"supremum at beta_0), got mu = {well.mu}"
        )
