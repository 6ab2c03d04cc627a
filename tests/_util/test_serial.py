"""Nested frozen dataclasses as JSON and back."""

import hashlib
import json
import math
from dataclasses import dataclass, field, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import adaste
from adaste._util.serial import (
    brief,
    digest,
    from_json,
    from_plain,
    later_field,
    parse_json,
    require_types,
    to_json,
    to_plain,
)
from adaste.estimators.schedules import Cosine, Geometric, Steps
from adaste.models import VGG, ResNet
from adaste.recipes.registry import ADMITTED

modest = settings(deadline=None, derandomize=True, max_examples=80)


@dataclass(frozen=True)
class Leaf:
    number: float = 1.0
    count: int = 0
    flag: bool = False
    word: str = ""
    maybe: float | None = None


@dataclass(frozen=True)
class Tree:
    leaf: Leaf
    rows: tuple[tuple[int, ...], ...] = ()
    pair: tuple[float, str] = (1.0, "a")
    leaves: tuple[Leaf, ...] = ()
    inner: "Tree | Leaf | None" = None


@dataclass(frozen=True)
class Strict:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"size must be positive, got {self.size}")


TABLE = {kind.__name__: kind for kind in (Leaf, Tree, Strict)}

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**62), 2**62)
leaves = st.builds(
    Leaf,
    number=numbers,
    count=st.integers(-(2**62), 2**62),
    flag=st.booleans(),
    word=st.text(),
    maybe=st.none() | numbers,
)
trees = st.recursive(
    st.builds(Tree, leaf=leaves),
    lambda inner: st.builds(
        Tree,
        leaf=leaves,
        rows=st.lists(st.lists(st.integers(0, 9), max_size=3).map(tuple), max_size=3).map(tuple),
        pair=st.tuples(numbers, st.text()),
        leaves=st.lists(leaves, max_size=3).map(tuple),
        inner=st.none() | leaves | inner,
    ),
    max_leaves=4,
)


def types_of(value):
    """The value with every number and text replaced by its type: 1 == 1.0, but they are of different types."""
    plain = to_plain(value) if hasattr(value, "__dataclass_fields__") else value
    if isinstance(plain, dict):
        return {name: types_of(part) for name, part in plain.items()}
    return [types_of(part) for part in plain] if isinstance(plain, list) else type(plain)


@pytest.mark.slow
@modest
@given(trees)
def test_what_is_read_equals_what_was_written_type_by_type(tree):
    read = from_json(to_json(tree), TABLE)
    assert read == tree
    assert types_of(read) == types_of(tree)
    assert digest(read) == digest(tree)


@pytest.mark.slow
@modest
@given(trees, trees)
def test_digests_differ_exactly_where_values_do(one, other):
    assert (digest(one) == digest(other)) == (one == other)


@modest
@given(st.integers(-(2**52), 2**52))
def test_a_number_has_one_digest_whether_it_is_written_as_whole_or_not(number):
    assert digest(Leaf(number=number)) == digest(Leaf(number=float(number)))


def test_a_class_may_gain_a_field_and_what_it_described_keeps_its_digest():
    @dataclass(frozen=True)
    class Longer(Leaf):
        more: int = 3

    Longer.__name__ = "Leaf"
    assert digest(Longer(number=0.5)) == digest(Leaf(number=0.5))
    assert digest(Longer(number=0.5, more=4)) != digest(Leaf(number=0.5))


def test_a_gained_field_is_written_only_where_it_differs_from_its_default():
    @dataclass(frozen=True)
    class Longer(Leaf):
        more: int = later_field(3)

    Longer.__name__ = "Leaf"
    assert to_json(Longer(number=0.5)) == to_json(Leaf(number=0.5))
    assert to_plain(Longer(number=0.5, more=4)) == {**to_plain(Leaf(number=0.5)), "more": 4}
    for written in (Longer(), Longer(more=4)):
        assert from_json(to_json(written), {"Leaf": Longer}) == written


def test_a_digest_is_the_hash_of_canonical_json():
    expected = '{"count":2,"kind":"Leaf","number":0.5,"word":"é"}'  # without what has its default value
    canonical = json.dumps(json.loads(expected), sort_keys=True, separators=(",", ":"))
    assert digest(Leaf(number=0.5, count=2, word="é")) == hashlib.sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize(
    "value",
    [
        adaste.AdaSTE(mu=Geometric(start=1.0, stop=100.0, length=7), slope=adaste.ExactSlope(steepest=True)),
        adaste.Scaled(adaste.BayesBiNN(10, temperature=Steps(values=(1.0, 0.5), ticks=(3,))), adaste.ChannelMean()),
        adaste.FiniteDifference(adaste.HardTanh(Cosine(start=1.0, stop=0.1, length=3)), adaste.FixedSpacing(2.0)),
        adaste.MirrorDescent(adaste.SoftmaxMirror(), stable=False),
        adaste.StraightThrough(window=1.0, noise=adaste.Noise(seed=2**62)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_methods_survive_the_round_trip(value):
    assert from_json(to_json(value), ADMITTED) == value


def test_every_admitted_class_is_found_under_its_own_name_and_is_frozen():
    for name, kind in ADMITTED.items():
        assert kind.__name__ == name
        assert kind.__dataclass_params__.frozen


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused_both_ways(bad):
    with pytest.raises(ValueError, match=r"Tree\.leaf\.number must be a finite number"):
        to_plain(Tree(Leaf(number=bad)))
    with pytest.raises(ValueError, match="number must be a finite number"):
        from_plain({"kind": "Leaf", "number": bad}, TABLE)
    with pytest.raises(ValueError, match="number must be a finite number"):
        from_json(json.dumps({"kind": "Leaf", "number": bad}), TABLE)


def test_what_json_cannot_hold_is_refused():
    @dataclass(frozen=True)
    class Odd:
        thing: object = field(default_factory=lambda: torch.zeros(2))

    with pytest.raises(ValueError, match=r"Odd\.thing has no form in JSON: Tensor"):
        to_plain(Odd())
    with pytest.raises(ValueError, match=r"Odd\.thing has no form in JSON: dict"):
        to_plain(Odd({"a": 1}))


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"kind": "Leef"}, "the value is of an unknown kind 'Leef'; near it: Leaf"),
        ({"kind": "os.system"}, "unknown kind"),
        ({"kind": 3}, "must name its class"),
        ({}, "must name its class"),
        ({"kind": "Tree", "leaf": {"kind": "Leaf", "numbr": 1}}, r"leaf\.numbr is no field of Leaf; near it: number"),
        ({"kind": "Tree", "lef": {"kind": "Leaf"}}, r"lef is no field of Tree; near it: leaf.*\(fields: leaf, rows"),
        ({"kind": "Tree"}, "leaf is missing: a Tree needs it"),
        ({"kind": "Tree", "leaf": 3}, "leaf must be a Leaf, got 3"),
        ({"kind": "Tree", "leaf": {"kind": "Strict", "size": 1}}, "leaf must be a Leaf, got a Strict"),
        ({"kind": "Leaf", "number": "1"}, "number must be a number, got '1'"),
        ({"kind": "Leaf", "number": True}, "number must be a number, got True"),
        ({"kind": "Leaf", "count": 1.0}, "count must be a whole number, got 1.0"),
        ({"kind": "Leaf", "count": 2**80}, "count must be smaller than 2"),
        ({"kind": "Leaf", "count": None}, "count must be a whole number, got None"),
        ({"kind": "Leaf", "flag": 1}, "flag must be true or false, got 1"),
        ({"kind": "Leaf", "word": None}, "word must be text, got None"),
        ({"kind": "Leaf", "maybe": "x"}, "maybe must be a number or null, got 'x'"),
        ({"kind": "Tree", "leaf": {"kind": "Leaf"}, "rows": [[1, "x"]]}, "rows must be a list"),
        ({"kind": "Tree", "leaf": {"kind": "Leaf"}, "pair": [1.0]}, "pair must be a list of 2: a number, text"),
        ({"kind": "Tree", "leaf": {"kind": "Leaf"}, "leaves": [{"kind": "Leaf", "coun": 1}]}, r"leaves\.0\.coun is no"),
        ({"kind": "Strict", "size": -1}, "of kind Strict: size must be positive, got -1"),
    ],
)
def test_bad_json_is_refused_with_the_place_and_the_reason(plain, message):
    with pytest.raises(ValueError, match=message):
        from_plain(plain, TABLE)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        *(("AdaSTE", "an AdaSTE"), ("SGD", "an SGD"), ("MLP", "an MLP")),
        *(("Scaled", "a Scaled"), ("VGG", "a VGG"), ("Unit", "a Unit")),
    ],
)
def test_a_class_has_the_article_its_name_is_spoken_with(kind, words):
    with pytest.raises(ValueError, match=f"must be a Leaf, got {words}$"):
        from_plain({"kind": kind}, ADMITTED, expected=Leaf)


def test_the_form_of_pmf_that_was_added_leaves_others_as_they_were_written_and_named():
    old = '{"kind": "PMF", "beta": 1.0, "released": true}'
    released = adaste.PMF(released=True)
    assert from_json(old, ADMITTED) == released
    assert json.loads(to_json(released)) == json.loads(old)
    original = adaste.PMF(original=True)
    assert from_json(to_json(original), ADMITTED) == original
    assert len({digest(made) for made in (adaste.PMF(), released, original)}) == 3


def test_errors_inside_methods_name_their_place():
    plain = to_plain(adaste.Scaled(adaste.AdaSTE()))
    plain["estimator"]["mu"] = {"kind": "Geometric", "start": -1, "stop": 1, "length": 3}
    with pytest.raises(ValueError, match=r"estimator\.mu of kind Geometric: .* needs start > 0"):
        from_plain(plain, ADMITTED)
    plain["estimator"]["mu"] = "high"
    with pytest.raises(ValueError, match=r"estimator\.mu must be a number or a Schedule, got 'high'"):
        from_plain(plain, ADMITTED)


def test_a_name_given_twice_is_refused():
    with pytest.raises(ValueError, match="'count' is given 2 times"):
        from_json('{"kind": "Leaf", "count": 1, "count": 2}', TABLE)


def test_many_names_are_read_as_fast_as_few():
    names = [f"name {number}" for number in range(200_000)]
    text = json.dumps(dict.fromkeys(names, 1))
    assert len(parse_json(text)) == len(names)
    with pytest.raises(ValueError, match="'name 5' is given 2 times"):
        parse_json(f'{text[:-1]}, "name 5": 2}}')


@pytest.mark.parametrize("depth", [900, 100_000])
def test_endless_nesting_is_refused(depth):
    with pytest.raises(ValueError, match="nested too deeply"):
        from_json("[" * depth + "]" * depth, TABLE)


def test_fields_with_a_default_may_be_missing():
    assert from_plain({"kind": "Leaf"}, TABLE) == Leaf()


def test_types_are_checked_against_annotations():
    require_types(Leaf(number=3))
    with pytest.raises(ValueError, match=r"count must be a whole number, got 0\.5"):
        require_types(replace(Leaf(), count=0.5))


def test_a_value_in_brief_tells_what_differs_from_its_defaults():
    assert brief(VGG()) == "VGG()"
    assert brief(VGG(stages=((8, 8), (16,)), hidden_widths=())) == "VGG(stages=[[8, 8], [16]], hidden_widths=[])"
    assert brief(ResNet(depth=34, stem="strided")) == "ResNet(depth=34, stem=strided)"
    assert brief(Geometric(start=0.5, stop=100.0, length=3)) == "Geometric(start=0.5, stop=100, length=3)"
