"""The data of the paper's figures 1 and 2."""

import math

import pytest
import torch

from adaste.paper.mathematics.illustrations import adaptive_slopes, map_curves


def test_panels_show_what_the_caption_of_figure_one_says():
    near, pulled, pushed = adaptive_slopes()
    assert near.slope == pytest.approx(near.derivative, rel=0.05), "near zero the derivative is matched very well"
    assert pulled.latent * pulled.grad > 0
    assert pulled.slope > 8 * pulled.derivative, "a nearly vanishing derivative is boosted"
    assert pushed.latent * pushed.grad < 0
    assert pushed.slope < pushed.derivative, "no boosting in this case"


def test_slope_is_that_of_the_line_between_the_two_points():
    for panel in adaptive_slopes():
        rise = math.tanh(panel.latent) - math.tanh(panel.perturbed)
        assert panel.slope == pytest.approx(rise / (panel.latent - panel.perturbed))


def test_chord_meets_tanh_at_its_ends_and_the_tangent_in_one_point():
    for panel in adaptive_slopes():
        ends = torch.tensor((panel.latent, panel.perturbed), dtype=torch.float64)
        torch.testing.assert_close(panel.chord(ends), torch.tanh(ends))
        torch.testing.assert_close(panel.tangent(ends[:1]), torch.tanh(ends[:1]))
        first, last = panel.tangent(torch.tensor(panel.touched, dtype=torch.float64))
        assert float(last - first) == pytest.approx(panel.derivative * (panel.touched[1] - panel.touched[0]))


def test_curves_of_figure_two_are_the_paper_formula_on_both_sides_of_the_jump():
    curves = map_curves(points=11)
    assert [curve.mu for curve in curves] == [1, 10, 100]
    for curve in curves:
        left, gap, right = curve.weight[:11], curve.weight[11], curve.weight[12:]
        assert torch.isnan(gap)
        torch.testing.assert_close(left, -right.flip(0))
        expected = ((curve.latent[12:] + curve.mu * 1.01) / (1 + curve.mu)).clamp(max=1)
        torch.testing.assert_close(right, expected)
        assert right[-1] == 1
