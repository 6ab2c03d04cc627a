"""Distillation: its loss is the published one, and recipes without it stay as they were."""

import dataclasses
import json
import math

import pytest
import torch

from adaste.recipes.distillation import Distillation
from adaste.recipes.overrides import override
from adaste.recipes.presets import recipe
from adaste.recipes.recipe import Recipe

TEACHER = "0123456789abcdef"
PLAIN = recipe("digits-mlp-adaste")
TAUGHT = dataclasses.replace(PLAIN, distillation=Distillation(teacher=TEACHER, weight=0.3, temperature=2.0))


def literal(labels: list[int], student: list[list[float]], teacher: list[list[float]], a: float, t: float) -> float:
    """(1 - a) cross-entropy + a T^2 KL, by sums over single numbers."""

    def probabilities(logits: list[float], temperature: float) -> list[float]:
        powers = [math.exp(value / temperature) for value in logits]
        return [power / sum(powers) for power in powers]

    total = 0.0
    for label, s, k in zip(labels, student, teacher, strict=True):
        entropy = -math.log(probabilities(s, 1.0)[label])
        pairs = zip(probabilities(k, t), probabilities(s, t), strict=True)
        divergence = sum(p * math.log(p / q) for p, q in pairs)
        total += (1 - a) * entropy + a * t**2 * divergence
    return total / len(labels)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_the_loss_is_the_sum_over_single_numbers(weight: float, temperature: float) -> None:
    source = torch.Generator().manual_seed(0)
    student, teacher = (torch.randn(5, 4, generator=source, dtype=torch.float64) for _ in range(2))
    labels = torch.tensor([0, 3, 1, 1, 2])
    distillation = Distillation(teacher=TEACHER, weight=weight, temperature=temperature)
    entropy = torch.nn.functional.cross_entropy(student, labels)
    expected = literal(labels.tolist(), student.tolist(), teacher.tolist(), weight, temperature)
    assert float(distillation.loss(entropy, student, teacher)) == pytest.approx(expected, rel=1e-5)


def test_the_gradient_is_that_of_the_definition() -> None:
    """Of the softmax with temperature: (1 - a) (q_1 - y) + a T (q_T - p_T), over the images of the batch."""
    source = torch.Generator().manual_seed(1)
    student, teacher = torch.randn(6, 5, generator=source, requires_grad=True), torch.randn(6, 5, generator=source)
    labels, a, t = torch.tensor([0, 1, 2, 3, 4, 0]), 0.7, 3.0
    entropy = torch.nn.functional.cross_entropy(student, labels)
    Distillation(teacher=TEACHER, weight=a, temperature=t).loss(entropy, student, teacher).backward()
    given = student.detach()
    wanted = (1 - a) * (given.softmax(1) - torch.nn.functional.one_hot(labels, 5))
    wanted = (wanted + a * t * ((given / t).softmax(1) - (teacher / t).softmax(1))) / 6
    torch.testing.assert_close(student.grad, wanted)


def test_a_network_that_gives_what_its_teacher_gives_has_the_loss_of_the_labels() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(2))
    loss = Distillation(teacher=TEACHER, weight=0.5).loss(torch.tensor(2.0), logits, logits)
    assert float(loss) == pytest.approx(1.0, abs=1e-6)


def test_logits_of_half_precision_are_compared_in_float32() -> None:
    student, teacher = (torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)) for seed in (3, 4))
    distillation = Distillation(teacher=TEACHER)
    halves = distillation.loss(torch.tensor(0.0), student.bfloat16(), teacher.bfloat16())
    wanted = distillation.loss(torch.tensor(0.0), student.bfloat16().float(), teacher.bfloat16().float())
    assert halves.dtype == torch.float32
    assert torch.equal(halves, wanted)


def test_a_recipe_without_a_teacher_says_nothing_of_distillation_and_keeps_its_digest() -> None:
    assert "distillation" not in json.loads(PLAIN.to_json())
    assert recipe("cifar10-resnet18-adaste").digest == "c5d1f31cbb94097c"


def test_a_recipe_with_a_teacher_comes_back_from_its_json() -> None:
    assert Recipe.from_json(TAUGHT.to_json()) == TAUGHT
    assert TAUGHT.digest != PLAIN.digest
    others = [dataclasses.replace(TAUGHT.distillation, **change) for change in ({"weight": 0.4}, {"temperature": 3.0})]
    assert len({dataclasses.replace(PLAIN, distillation=other).digest for other in others} | {TAUGHT.digest}) == 3


def test_all_seeds_have_the_same_teacher() -> None:
    assert TAUGHT.with_seed(5).distillation == TAUGHT.distillation
    assert TAUGHT.with_seed(5).unseeded == TAUGHT


def test_an_override_sets_a_teacher_and_its_numbers() -> None:
    made = override(PLAIN, ["distillation=Distillation", f"distillation.teacher={TEACHER}", "distillation.weight=0.3"])
    assert made.distillation == Distillation(teacher=TEACHER, weight=0.3)
    assert override(made, ["distillation=null"]) == PLAIN


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": -0.1}, r"weight must be from 0 \(labels alone\) to 1 \(the teacher alone\), got -0.1"),
        ({"weight": 1.5}, "weight must be from 0 .* got 1.5"),
        ({"weight": math.nan}, "weight must be from 0 .* got nan"),
        ({"weight": "half"}, "weight must be a number, got 'half'"),
        ({"temperature": 0.0}, "temperature must be above 0, got 0.0"),
        ({"temperature": -1.0}, "temperature must be above 0, got -1.0"),
        ({"temperature": math.inf}, "temperature must be a finite number, got inf"),
        ({"teacher": "digits-mlp-adaste"}, "16 hexadecimal digits .* got 'digits-mlp-adaste'"),
        ({"teacher": TEACHER.upper()}, "16 hexadecimal digits"),
        ({"teacher": 5}, "teacher must be text, got 5"),
    ],
)
def test_a_wrong_setting_is_refused(change, message) -> None:
    with pytest.raises(ValueError, match=message):
        Distillation(**{"teacher": TEACHER, **change})
