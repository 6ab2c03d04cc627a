"""The networks and images of the family `released`, as the published code has them."""

import dataclasses

import pytest
import torch
from torch import nn

from adaste.models import ImageShape
from adaste.optim.partition import binary_weights
from adaste.paper.families import SETUPS, Setup
from adaste.paper.tables import FAMILIES
from adaste.recipes.recipe import Recipe

pytestmark = pytest.mark.slow

SHAPES = {
    "cifar10": (ImageShape(3, 32, 32), 10),
    "cifar100": (ImageShape(3, 32, 32), 100),
    "tiny-imagenet": (ImageShape(3, 64, 64), 200),
    "imagenette": (ImageShape(3, 224, 224), 10),
}
every_setup = pytest.mark.parametrize("where", SETUPS)


def every_released(where: str, epochs: int = 60) -> dict[str, Recipe]:
    family = FAMILIES["released"]
    made = {method: family.recipe(method, SETUPS[where], epochs) for method in family.makers}
    return {method: one for method, one in made.items() if one is not None}


def parameters(setup: Setup, *, md_form: bool) -> int:
    network = setup.md_form if md_form else setup.network
    with torch.device("meta"):
        model = network.layers(*SHAPES[setup.data])
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("where", "adaste_form", "md_form"),
    [
        ("cifar10-vgg16", 15_239_872, 15_245_130),
        ("cifar10-resnet18", 11_164_362, 11_164_362),
        ("cifar100-vgg16", 15_285_952, 15_291_300),
        ("cifar100-resnet18", 11_210_532, 11_210_532),
        ("tiny-imagenet-resnet18", 11_261_832, 11_261_832),
        ("imagenette-resnet18", 11_410_122, 11_410_122),
    ],
)
def test_networks_have_as_many_parameters_as_the_published_ones(where: str, adaste_form: int, md_form: int) -> None:
    assert parameters(SETUPS[where], md_form=False) == adaste_form
    assert parameters(SETUPS[where], md_form=True) == md_form


@every_setup
def test_batch_norm_is_that_of_the_two_code_bases(where: str) -> None:
    adaste_form, md_form = SETUPS[where].network, SETUPS[where].md_form
    assert (adaste_form.affine, adaste_form.logits_norm, adaste_form.norm_momentum) == (False, True, 0.2)
    assert (md_form.affine, md_form.logits_norm, md_form.norm_momentum) == (False, False, 0.1)


@every_setup
def test_adaste_and_bayesbinn_train_their_networks_and_all_others_those_of_md_bnn(where: str) -> None:
    for method, made in every_released(where).items():
        if method.startswith(("adaste", "bayesbinn")):
            assert made.network == SETUPS[where].network
        elif method != "proxquant":
            assert dataclasses.replace(made.network, two_levels=False) == SETUPS[where].md_form


@every_setup
def test_all_parameters_are_binary_but_those_that_proxquant_leaves_real(where: str) -> None:
    for method, made in every_released(where).items():
        with torch.device("meta"):
            model = made.network.layers(*SHAPES[made.data])
        parts = binary_weights(model, include=made.include or None, exclude=made.exclude or None)
        if method == "proxquant":
            assert all(stays_real(name, model) for name in parts.rest)
            assert not any(stays_real(name, model) for name in parts.binary)
        else:
            assert not parts.rest, method


def stays_real(name: str, model: nn.Module) -> bool:
    layer = model.get_submodule(name.rpartition(".")[0])
    return "shortcut" in name or name.endswith("bias") or isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)


@every_setup
def test_five_thousand_images_of_cifar_are_held_out_and_none_of_the_others(where: str) -> None:
    for made in every_released(where).values():
        assert made.holdout == (5_000 if where.startswith("cifar") else 0)


@every_setup
def test_batches_have_128_images_but_for_adaste_on_imagenette(where: str) -> None:
    for method, made in every_released(where).items():
        assert made.batch == (8 if where == "imagenette-resnet18" and method.startswith("adaste") else 128)


@every_setup
def test_md_bnn_pmf_and_proxquant_test_with_the_statistics_of_soft_weights(where: str) -> None:
    for method, made in every_released(where).items():
        soft = method.startswith(("md-", "pmf", "proxquant"))
        assert not soft or made.norm_batches == 0
        assert not method.startswith(("adaste", "bayesbinn")) or made.norm_batches == 50
