"""Where a finite difference of tanh looks at its derivative (eq. mod_chain_rule).

By the mean value theorem, (tanh theta - tanh(theta - x)) / x = tanh'(theta - h) for some h between 0 and x: AdaSTE's
update is the chain rule with the inner derivative taken at a shifted point. For tanh, h has a closed form. Only at the
spacing with the steepest slope may h be x itself, which is the case the paper's appendix writes down.

Legend: theta latent, g = dl/dw, beta spacing, x = beta g, h shift.
"""

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
