"""The mathematics as pictures: one function per figure, each a pure function that returns a matplotlib Figure.

Needs matplotlib, as `adaste.paper.figures` says. docs/pictures/draw_mathematics.py writes them into the documentation.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from adaste.estimators.maps import DoubleWell, Tanh
from adaste.paper.figures import use_style
from adaste.paper.mathematics import drift, illustrations, mirror, relaxation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
BLACK, BLUE, SKY, GREEN, ORANGE, RED = "#222222", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00"
GREY = "#8a8a8a"
LOOK: Mapping[str, Any] = MappingProxyType(
    {
        "font.size": 10.5,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "grid.color": "0.93",
        "lines.linewidth": 1.8,
        "legend.fontsize": 9.5,
        "legend.handlelength": 1.6,
    }
)
"""For up to three panels in a row, which a page shows at less than their size."""


@use_style(LOOK)
def adaptive_slopes() -> "Figure":
    """The paper's figure 1: chord and tangent of tanh in three cases."""
    cases = illustrations.adaptive_slopes()
    figure, panels = _figure(*(rf"{case.case}: $\theta = {case.latent:g},\ \ell' = {case.grad:g}$" for case in cases))
    for axes, case in zip(panels, cases, strict=True):
        _draw_adaptive_slope(axes, case)
    panels[0].set_ylabel(r"weight  $\tanh\theta$")
    return figure


@use_style(LOOK)
def map_curves() -> "Figure":
    """The paper's figure 2: the double-well map for three values of mu."""
    figure, (axes,) = _figure(r"forward map $w^* = s(\theta)$ for $\alpha = 1/100$", size=(6.4, 4.0))
    styles = ((SKY, "-"), (BLUE, "-"), (BLACK, (0, (4, 2))))
    for curve, (colour, dashes) in zip(illustrations.map_curves(), styles, strict=True):
        label = rf"$\mu = {curve.mu:g}$"
        axes.plot(curve.latent, curve.weight, color=colour, linestyle=dashes, linewidth=2.2, label=label)
    axes.set(xlabel=r"latent $\theta$", ylabel="weight $w^*$", yticks=(-1, -0.5, 0, 0.5, 1))
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.08))
    return figure


@use_style(LOOK)
def mirror_descent() -> "Figure":
    """The two maps tanh is split into, and the metric, for several shifts."""
    figure, (outer, inner, metric) = _figure(
        "outer map $w = s_2(u)$", r"inner map $u = s_1(\theta)$", r"metric $\Phi''(u)$ where $u = s_1(\theta)$"
    )
    latent = torch.sinh(_linspace(-4.5, 4.5, 300))  # far, because for h = 1 the map flattens late
    for size, colour in zip((-1.0, -0.5, 0.0, 0.5, 1.0), (BLUE, SKY, BLACK, ORANGE, RED), strict=True):
        shift = torch.full_like(latent, size)
        primal = mirror.inner(latent, shift)
        outer.plot(primal, torch.tanh(latent), color=colour, label=f"$h = {size:g}$")
        inner.plot(latent, primal, color=colour)
        metric.plot(latent, mirror.metric(latent, shift), color=colour)
    outer.set(xlabel="intermediate weight $u$", ylabel="weight $w$", xlim=(-6, 6))
    inner.set(xlabel=r"latent $\theta$", ylabel="intermediate weight $u$", xlim=(-3, 3), ylim=(-8, 8))
    metric.set(xlabel=r"latent $\theta$", ylabel="cost of a unit of $u$", xlim=(-3, 3), yscale="log")
    metric.set_yticks((0.2, 0.5, 1, 2, 5), ("0.2", "0.5", "1", "2", "5"))
    metric.minorticks_off()
    outer.legend(loc="lower right")
    return figure


@use_style(LOOK)
def relaxed_objective() -> "Figure":
    """The relaxed loss of binary weights, its local model, and what the local model leaves out."""
    figure, (relaxed, model, slopes) = _figure(
        r"relaxed objective: $w = \mathrm{sgn}\,\theta,\ \ell(w) = w$",
        r"local model $Q$ at $\theta^{(t)} = 1,\ \beta = 2$",
        r"slopes: $w = \tanh\theta,\ \ell(w) = (w + 1/2)^2 / 2$",
    )
    _draw_relaxed(relaxed)
    _draw_local_model(model)
    _draw_dropped(slopes)
    return figure


@use_style(LOOK)
def steepest_spacing() -> "Figure":
    """The slope over the spacing for one well, and what the recommended spacing can cost."""
    figure, (slopes, ratios) = _figure(
        r"slope over spacing: $\mu = 1,\ \alpha = 0.01$", r"steepest slope over that at $\beta_0$: $\alpha = 0.01$"
    )
    _draw_slopes_over_spacing(slopes, DoubleWell(1.0, 0.01))
    latent = torch.logspace(-1, 4, 300, dtype=torch.float64)
    grad = torch.ones_like(latent)
    for mu, colour in zip((0.3, 1.0, 10.0, 50.0), (RED, ORANGE, BLUE, BLACK), strict=True):
        well = DoubleWell(mu, 0.01)
        ratio = relaxation.steepest_slope(well, latent, grad) / relaxation.crossing_slope(well, latent, grad)
        ratios.plot(latent, ratio, color=colour, label=rf"$\mu = {mu:g}$")
        ratios.axhline(float(relaxation.worst_ratio(well)), color=colour, linestyle=":", linewidth=1.2)
    ratios.set(xlabel=r"$|\theta|$", ylabel="ratio (dotted: its supremum)", xscale="log", xlim=(0.1, 1e4))
    ratios.legend(loc="upper left", bbox_to_anchor=(0, 0.92))
    return figure


@use_style(LOOK)
def noise_drift() -> "Figure":
    """The expected update of the printed rule under noise, and what it does to one weight."""
    mean = -0.1
    figure, (update, course, share) = _figure(
        r"printed rule: expected update at $\theta = 1$",
        r"a weight that starts right ($m = -0.1\,\sigma$)",
        "2,000 weights, half of them start right",
    )
    _draw_expected_update(update)
    latents = drift.compare(mean)
    for (name, path), colour in zip(latents.items(), (RED, BLUE, GREEN), strict=True):
        steps = torch.arange(0, len(path), 10)
        course.plot(steps, path[steps, 0], color=colour, linewidth=1.4, label=name)
        share.plot(steps, 100 * drift.share_right(path, mean)[steps], color=colour)
    course.axhline(0, color=GREY, linewidth=0.8)
    course.set(xlabel="step", ylabel=r"latent $\theta$", ylim=(-0.1, 1.1))
    course.legend(loc="upper right", bbox_to_anchor=(1.01, 0.78))
    share.set(xlabel="step", ylabel="right signs in %", ylim=(45, 101))
    return figure


FIGURES: Mapping[str, Callable[[], "Figure"]] = MappingProxyType(
    {
        "adaptive-slope": adaptive_slopes,
        "forward-map": map_curves,
        "relaxation": relaxed_objective,
        "mirror-descent": mirror_descent,
        "steepest-spacing": steepest_spacing,
        "noise-drift": noise_drift,
    }
)
"""Every figure by the name of its file."""


def _draw_adaptive_slope(axes: "Axes", case: illustrations.AdaptiveSlope) -> None:
    curve = _linspace(*illustrations.LATENTS)
    touched, ends = (torch.tensor(pair, dtype=torch.float64) for pair in (case.touched, (case.latent, case.perturbed)))
    tangent, (weight, perturbed) = case.tangent(touched), case.chord(ends).tolist()
    axes.plot(curve, torch.tanh(curve), color=BLACK, linewidth=1.5)
    axes.plot(touched, tangent, color=BLUE, linestyle=(0, (4, 2)), label=f"derivative {case.derivative:.2f}")
    chord = {"color": RED, "linewidth": 2.2, "marker": "o", "label": f"finite difference {case.slope:.2f}"}
    axes.plot(ends, (weight, perturbed), **chord)  # type: ignore[arg-type]
    low, high = illustrations.WEIGHTS
    outward = 1 if case.perturbed > case.latent else -1
    for end, height, name, side in (
        (case.latent, weight, "$w^*$", -outward),
        (case.perturbed, perturbed, r"$\hat w$", outward),
    ):
        axes.plot((end, end), (low, height), color=GREY, linestyle=":", linewidth=1)
        # Beside the point and off the curve: above it on the left, below it on the right of a rising chord.
        axes.annotate(name, (end, height), (13 * side, 8 if side < 0 else -13), textcoords="offset points", ha="center")
    axes.annotate("", (case.perturbed, -1.2), (case.latent, -1.2), arrowprops={"arrowstyle": "->", "color": GREY})
    axes.set(xlabel=r"latent; the arrow goes from $\theta$ to $\theta - \beta\ell'$", xlim=(-5.6, 3), ylim=(low, high))
    axes.legend(loc="upper left")


def _draw_relaxed(axes: "Axes") -> None:
    latent = torch.cat((_linspace(-1.5, -1e-9, 2), _linspace(1e-9, 5, 101)))
    axes.plot((-1.5, 0, math.nan, 0, 5), (-1, -1, math.nan, 1, 1), color=BLACK, label=r"$\ell(\mathrm{sgn}\,\theta)$")
    for beta, colour in zip((1.0, 2.0, 4.0), (SKY, BLUE, RED), strict=True):
        spacing = torch.full((1,), beta, dtype=torch.float64)
        values = [relaxation.relaxed_objective(torch.sum, DoubleWell(), theta.view(1), spacing) for theta in latent]
        label = rf"$L(\theta),\ \beta = {beta:g}$"
        axes.plot(latent, torch.stack(values), color=colour, linestyle=(0, (5, 1)), label=label)
    axes.set(xlabel=r"latent $\theta$", ylabel="loss")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.05))


def _draw_local_model(axes: "Axes") -> None:
    start, grad, beta = (torch.tensor(value, dtype=torch.float64) for value in (1.0, 1.0, 2.0))
    candidates, well = _linspace(-1.5, 2.5), DoubleWell()
    for eta, colour in zip((0.5, 1.0, 2.0), (SKY, BLUE, RED), strict=True):
        best = relaxation.local_minimiser(well, start, grad, beta, eta)
        values = relaxation.local_model(well, candidates, start, grad, beta, eta)
        axes.plot(candidates, values, color=colour, label=rf"$\eta = {eta:g}$")
        axes.plot(best, relaxation.local_model(well, best, start, grad, beta, eta), "o", color=colour)
    height = float(relaxation.local_model(well, start, start, grad, beta, 1.0))
    axes.plot(start, height, "s", color=BLACK, markersize=6)
    axes.annotate(r"$\theta^{(t)}$", (1, height), (7, -13), textcoords="offset points")
    axes.set(xlabel=r"candidate $\theta$", ylabel=r"$Q(\theta;\, \theta^{(t)})$", ylim=(-0.3, 4.2))
    axes.legend(loc="upper center", bbox_to_anchor=(0.62, 1))


def _draw_dropped(axes: "Axes") -> None:
    forward, beta, latent = Tanh(), torch.full((1,), 2.0, dtype=torch.float64), _linspace(-3, 3)

    def loss(weight: Tensor) -> Tensor:
        return ((weight + 0.5) ** 2).sum() / 2

    grad = forward(latent) + 0.5
    update = relaxation.local_slope(forward, latent, grad, beta)
    dropped = relaxation.dropped_slope(loss, forward, latent, beta, mirror.derivative)
    chain = grad * mirror.derivative(latent)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.plot(latent, chain, color=GREY, linestyle="--", label=r"chain rule ($\beta \to 0$)")
    axes.plot(latent, update, color=RED, label=r"update $d$ ($\beta = 2$)")
    axes.plot(latent, update + dropped, color=BLUE, label="whole gradient of $L$")
    axes.set(xlabel=r"latent $\theta$", ylabel="slope", ylim=(-0.5, 1.25))
    axes.legend(loc="upper left")


def _draw_slopes_over_spacing(axes: "Axes", well: DoubleWell) -> None:
    one = torch.ones((), dtype=torch.float64)
    share = torch.cat((_linspace(0.5, 1 - 1e-9, 100), _linspace(1 + 1e-9, 3)))
    for size, colour in zip((1.5, 3.01, 6.0, 20.0), (SKY, BLACK, ORANGE, RED), strict=True):
        latent = size * one
        slopes = size * relaxation.slope(well, latent, one, share * size)
        axes.plot(share, slopes, color=colour, label=rf"$|\theta| = {size:g}$")
        end = float(relaxation.saturating_beta(well, latent, one)) / size
        axes.plot(end, size * float(relaxation.saturating_slope(well, latent, one)), "o", color=colour, zorder=3)
    height = float(relaxation.crossing_slope(well, 2 * one, one)) * 2
    axes.annotate(r"$\beta_0$", (1, height), (-20, -2), textcoords="offset points")
    axes.annotate(r"dots: $\beta_1$", (1.42, 1.55))
    axes.set(xlabel=r"spacing  $\beta\,|\ell'|\,/\,|\theta|$", ylabel=r"slope  $d\,|\theta|\,/\,\ell'$")
    axes.legend(loc="upper right")


def _draw_expected_update(axes: "Axes") -> None:
    mean, one = _linspace(-3, 3), torch.ones((), dtype=torch.float64)
    axes.axvspan(-3, 0, color="0.95", zorder=0)
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.plot(mean, mean.clamp(min=0), color=GREY, linestyle="--", label="without noise")
    axes.plot(mean, drift.expected_update_in_noise(one, mean, 1.0), color=ORANGE, label=r"$0.4\,\sigma + m/2$")
    axes.plot(mean, drift.expected_update(one, mean, 1.0), color=RED, linewidth=2.2, label="with noise, exact")
    axes.annotate("$w = 1$ is right here,\nstill it shrinks", (-2.85, 0.6))
    axes.set(xlabel=r"mean gradient  $m / \sigma$", ylabel=r"$E[d]\,/\,\sigma$", xlim=(-3, 3), ylim=(-0.4, 2.6))
    axes.legend(loc="upper left")


def _figure(*titles: str, size: tuple[float, float] = (12.6, 4.0)) -> tuple["Figure", list["Axes"]]:
    """An empty figure with one panel per title; apart from pyplot, which keeps global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    panels: list[Axes] = list(figure.subplots(1, len(titles), squeeze=False)[0])
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
    return figure, panels


def _linspace(low: float, high: float, points: int = 200) -> Tensor:
    return torch.linspace(low, high, points, dtype=torch.float64)
