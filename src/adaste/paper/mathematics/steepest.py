"""The spacing beta with the steepest slope of the double well while mu alpha < 1 (second appendix of the paper).

With theta g > 0 there are two candidates: beta_0, just past the jump at zero, and beta_1, where the perturbed weight
first reaches +-1 on the other side. beta_1 wins exactly where |theta| > 1 + 2 mu + mu alpha. The paper recommends
beta_0 throughout, "by visual inspection"; `worst_ratio` is how much that can cost.

Legend: theta latent, g = dl/dw, beta spacing, r = 1 - mu alpha the end of the linear part, d = (w* - w^) / beta.
"""

import torch
from torch import Tensor

from adaste.estimators.finite_difference import FixedSpacing
from adaste.estimators.maps import DoubleWell, same_sign
from adaste.estimators.schedules import Scalar, now


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
