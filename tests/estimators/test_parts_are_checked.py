"""A part of a method that is not what it must be is refused by name when the method is made."""

import pytest

import adaste


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: adaste.AdaSTE(slope=adaste.ExactSlope), "slope"),
        (lambda: adaste.FiniteDifference(map="tanh"), "map"),
        (lambda: adaste.FiniteDifference(spacing=1.0), "spacing"),
        (lambda: adaste.BinaryConnect(noise=3), "noise"),
        (lambda: adaste.StraightThrough(noise=True), "noise"),
        (lambda: adaste.BayesBiNN(train_size=1.0, noise=0), "noise"),
        (lambda: adaste.MirrorDescent(mirror="softmax"), "mirror"),
        (lambda: adaste.Scaled(adaste.FanIn()), "estimator"),
        (lambda: adaste.Scaled(adaste.BinaryConnect(), scale=0.1), "scale"),
        (lambda: adaste.PARQ(scale=None), "scale"),
        (lambda: adaste.BinaryRelax(scale=1.0), "scale"),
    ],
)
def test_a_part_of_the_wrong_kind_is_refused(make, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be an? .*, got "):
        make()


def test_infinity_is_refused_as_not_finite() -> None:
    with pytest.raises(ValueError, match=r"mu must be finite and above 0.*, got inf"):
        adaste.AdaSTE(mu=float("inf"))
