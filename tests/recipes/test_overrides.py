"""Changes of a recipe written as text."""

import dataclasses
import re

import pytest

import adaste
from adaste.data.augment import Crop, Flip
from adaste.estimators.schedules import Geometric, schedules_in
from adaste.models import VGG, ResNet
from adaste.recipes.bases import SGD, AdamW
from adaste.recipes.overrides import override
from adaste.recipes.presets import RECIPES, recipe
from adaste.recipes.recipe import Recipe

RECIPE = Recipe(
    data="cifar10",
    network=ResNet(),
    estimator=adaste.AdaSTE(),
    base=SGD(0.5),
    epochs=3,
    augmentation=(Crop(4), Flip()),
)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("base.lr=0.1", "base", SGD(0.1)),
        ("base.lr = 1e-3", "base", SGD(1e-3)),
        ("estimator.mu=50", "estimator", adaste.AdaSTE(mu=50)),
        ("estimator.start=null", "estimator", adaste.AdaSTE(start=None)),
        ("estimator.slope=ReleasedSlope", "estimator", adaste.AdaSTE(slope=adaste.ReleasedSlope())),
        ("network.depth=34", "network", ResNet(depth=34)),
        ("network.stem=strided", "network", ResNet(stem="strided")),
        ('network.stem="large"', "network", ResNet(stem="large")),
        ("network=VGG", "network", VGG()),
        ("estimator=StraightThrough", "estimator", adaste.StraightThrough()),
        ('estimator={"kind":"Bop","threshold":0.5}', "estimator", adaste.Bop(0.5)),
        ("augmentation=[]", "augmentation", ()),
        ('augmentation=[{"kind":"Crop","padding":2}]', "augmentation", (Crop(2),)),
        ('include=["a.*","b.*"]', "include", ("a.*", "b.*")),
        ("data=Flip", "data", "Flip"),
        ("sync_norm=true", "sync_norm", True),
        ("rest_lr=null", "rest_lr", None),
        (
            'estimator.mu={"kind":"Geometric","start":1,"stop":100,"length":60}',
            "estimator",
            adaste.AdaSTE(mu=Geometric(start=1, stop=100, length=60)),
        ),
    ],
)
def test_an_assignment_changes_its_field_and_no_other(text: str, field: str, value: object) -> None:
    assert override(RECIPE, [text]) == dataclasses.replace(RECIPE, **{field: value})


def test_assignments_follow_each_other() -> None:
    changed = override(RECIPE, ["network=VGG", "network.bias=true", "epochs=7", "epochs=8"])
    assert changed == dataclasses.replace(RECIPE, network=VGG(bias=True), epochs=8)


@pytest.mark.parametrize(
    "assignments",
    [
        ["base=AdamW", "base.lr=0.01"],
        ["base.nesterov=true", "base.momentum=0.9"],
        ["estimator.mirror=SoftmaxMirror", "estimator=MirrorDescent", "estimator.beta=3"],
        ["estimator.estimator.threshold=0.5", "estimator=Scaled", "estimator.scale=Unit", "estimator.estimator=Bop"],
        ['base.lr={"kind":"Linear","start":1,"stop":0,"length":3}', "base.lr.length=7"],
    ],
)
def test_the_order_of_assignments_to_different_fields_does_not_matter(assignments: list[str]) -> None:
    made = override(RECIPE, assignments)
    assert made != RECIPE
    assert override(RECIPE, reversed(assignments)) == made


def test_of_two_assignments_to_one_field_the_later_counts() -> None:
    assert override(RECIPE, ["base.lr=0.1", "base=AdamW", "base.lr=0.2"]).base == AdamW(0.2)


def test_a_field_that_is_further_inside_is_named_before_others_like_it() -> None:
    with pytest.raises(ValueError, match=r"lr is no field of Recipe; near it: base\.lr, rest_lr \("):
        override(RECIPE, ["lr=0.1"])


@pytest.mark.parametrize("text", ["base=Lion", 'base={"kind":"Lion","lr":1}'])
def test_a_class_that_there_is_not_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="there are: SGD, Adam, AdamW, RMSprop"):
        override(RECIPE, [text])


def test_an_error_names_the_assignments_it_is_about_and_no_others() -> None:
    with pytest.raises(ValueError, match=r"^base\.nesterov=true: nesterov needs momentum"):
        override(RECIPE, ["epochs=7", "base.nesterov=true", "batch=5"])


def test_no_assignments_leave_the_recipe_alone() -> None:
    assert override(RECIPE, []) == RECIPE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs", "an override is written key=value"),
        ("=3", "an override is written key=value"),
        ("epoch=3", "epoch is no field of Recipe; near it: epochs.*fields: data, network"),
        ("base.lrr=1", r"base\.lrr is no field of SGD; near it: lr \(fields: lr, momentum"),
        ("base..lr=1", r"base\. is no field of SGD"),
        ("basis.lr=1", "basis is no field of Recipe; near it: base"),
        ("network.depth.x=1", "nothing inside network.depth, which is 18"),
        ("augmentation.0=1", "give augmentation as a whole"),
        ("estimator=StraightTrough", "must be an Estimator, got 'StraightTrough'; near it: StraightThrough"),
        ("estimator=SGD", "estimator must be an Estimator, got an SGD"),
        ("estimator=Scaled", r"estimator\.estimator is missing"),
        ("estimator=3", "estimator must be an Estimator, got 3"),
        ("base.lr=fast", r"base\.lr=fast: base\.lr must be a number or a Schedule, got 'fast'"),
        ("base.lr=NaN", r"base\.lr must be a finite number"),
        ("base.lr=1e999", r"base\.lr must be a finite number"),
        ("base.lr=-1", r"base\.lr=-1: lr must be at least 0"),
        ("network.depth=17", r"network\.depth=17: depth must be one of \[18, 34, 50\]"),
        ("epochs=2.5", "epochs must be a whole number, got 2.5"),
        ("epochs=", "epochs must be a whole number, got ''"),
        ("sync_norm=yes", "sync_norm must be true or false, got 'yes'"),
        ("seed=true", "seed must be a whole number, got True"),
        ("data=3", "data must be text, got 3"),
        ('estimator.mu={"start":1}', r"estimator\.mu must name its class"),
        ('estimator.mu={"kind":"Constant","value":1,"value":2}', "'value' is given 2 times in one JSON object"),
        (f"estimator={'[' * 600}{']' * 600}", "nested too deeply"),
        ('estimator.mu={"kind":"Geometrc"}', "unknown kind 'Geometrc'; near it: Geometric"),
        ('estimator.mu={"kind":"Linear","start":1,"stop":2,"length":3,"every":2}', "every must be 1"),
    ],
)
def test_bad_assignments_are_refused_with_their_text_and_the_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        override(RECIPE, [text])
    assert text in str(refusal.value)


def test_the_example_given_where_an_assignment_is_none_suits_every_recipe_and_takes_no_schedule_away() -> None:
    with pytest.raises(ValueError, match="key=value") as refusal:
        override(RECIPE, ["epochs"])
    (example,) = re.findall(r"as in (\S+=\S+)\)", str(refusal.value))
    for name in RECIPES:
        made = recipe(name)
        changed = override(made, [example])
        assert changed != made and schedules_in(changed) == schedules_in(made)


def test_what_could_not_be_read_back_from_json_is_refused() -> None:
    nested = '{"kind":"Scaled","estimator":' * 60 + '{"kind":"Bop"}' + "}" * 60
    with pytest.raises(ValueError, match="nested too deeply"):
        override(RECIPE, [f"estimator={nested}"])
