"""The relaxed objective of the bilevel problem (eq. contrastive_L), its local model Q and where Q is smallest.

The inner problem is w* = argmin_w E(w; theta) = s(theta) with E(w; theta) = G(w) - w theta. Its optimal value
reformulation, with multipliers 1/beta and the loss linearised at w*, is

    L(theta) = l(w*) + sum_j [ g_j (w^_j - w*_j) + (E(w^_j; theta_j) - E(w*_j; theta_j)) / beta_j ],

where w^ = s(theta - beta g) minimises beta g w + E(w; theta) (Proposition 1). Legend: s forward map, theta latent, w*
weight, w^ perturbed weight, g = dl/dw at w*, beta spacing, eta learning rate, G inner objective.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from adaste.estimators.maps import ForwardMap

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
    """What the whole gradient of L has beyond `local_slope`: -s'(theta) l''(w*) (w* - w^), `derivative` being s'.

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
