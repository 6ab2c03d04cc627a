"""Training with a teacher: as a plain loop would, with every engine, resumed exactly; the teacher stays as it is."""

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from adaste.data.augment import Crop, CutMix, Flip, MixupOrCutMix, order_of_epoch
from adaste.models import MLP, VGG, Network
from adaste.recipes.distillation import Distillation
from adaste.recipes.recipe import Recipe
from adaste.training.execution import dtype_of
from adaste.training.step import Teacher
from adaste.training.trainer import Training
from support.small_runs import (
    CONVOLUTIONAL,
    CPU,
    assert_same,
    small_data,
    small_recipe,
    small_training,
    stopping_at,
    timeless,
    weights_of,
)

BY = Distillation(teacher="0123456789abcdef", weight=0.7, temperature=2.0)
WIDER = MLP(widths=(24,))
TAUGHT = {
    "adaste": small_recipe("adaste", distillation=BY),
    "mixed images": small_recipe(
        "binaryconnect", distillation=BY, augmentation=(Crop(1), MixupOrCutMix()), label_smoothing=0.1
    ),
    "convolutions": small_recipe("adaste-annealed", network=CONVOLUTIONAL, distillation=BY, precision="bfloat16"),
}
every_recipe = pytest.mark.parametrize("made", list(TAUGHT.values()), ids=list(TAUGHT))


def trained_teacher(network: Network = WIDER, precision: str = "float32") -> Teacher:
    """A network whose parameters would take gradients, if a step had some for them."""
    made = small_recipe("full-precision", network=network, precision=precision)
    training = small_training(made)
    list(training.run())
    training.optimizer.zero_grad()
    return Teacher(training.model.eval(), dtype_of(made), "0" * 64)


def taught(made: Recipe, teacher: Teacher, engine: str = "eager") -> Training:
    return Training(made, small_data(), device=CPU, engine=engine, teacher=teacher)


def test_an_epoch_is_the_one_of_a_plain_loop_with_the_published_loss() -> None:
    made = small_recipe("full-precision", epochs=1, augmentation=(), label_smoothing=0.1, distillation=BY)
    teacher, data = trained_teacher(), small_data()
    training = taught(made, teacher)
    plain = copy.deepcopy(training.model)
    momentum = torch.optim.SGD(plain.parameters(), lr=made.base.lr.at(0), momentum=made.base.momentum)
    momentum.param_groups[0]["weight_decay"] = made.base.weight_decay
    record = next(training.run())
    losses = []
    for step, index in enumerate(order_of_epoch(seed=made.seed, epoch=0, count=100, batch=16)):
        for group in momentum.param_groups:
            group["lr"] = made.base.lr.stretched(6).at(step)
        images = torch.from_numpy(data.train.images[index.numpy()]).float() / 255
        images = ((images - 0.5) / 0.25).permute(0, 3, 1, 2)
        labels = torch.from_numpy(data.train.labels[index.numpy()])
        logits, known = plain(images), teacher.network(images)
        p, q = (known / 2).softmax(1), (logits / 2).softmax(1)
        divergence = (p * (p.log() - q.log())).sum(1).mean()
        loss = 0.3 * F.cross_entropy(logits, labels, label_smoothing=0.1) + 0.7 * 4 * divergence
        losses.append(loss.item())
        momentum.zero_grad()
        loss.backward()
        momentum.step()
    assert record.loss == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    for ours, theirs in zip(training.model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_the_teacher_sees_the_mixed_images_that_the_network_sees() -> None:
    made = small_recipe("adaste", epochs=1, distillation=BY, augmentation=(Flip(), CutMix()))
    teacher = trained_teacher()
    training, seen = taught(made, teacher), []
    for network in (training.model, teacher.network):
        network.register_forward_pre_hook(lambda network, args: seen.append((network, args[0].detach().clone())))
    stopping_at(training, 2)
    by_teacher = [images for network, images in seen if network is teacher.network]
    by_network = [images for network, images in seen if network is training.model]
    assert_same(by_teacher, by_network)
    assert not torch.equal(by_network[0], by_network[1])


@pytest.mark.parametrize("network", [WIDER, VGG(stages=((8,),), affine=True)], ids=["MLP", "VGG"])
def test_the_teacher_stays_as_it_is_and_gets_no_gradients(network: Network) -> None:
    teacher = trained_teacher(network)
    before = copy.deepcopy(teacher.network.state_dict())
    training = taught(small_recipe("adaste", distillation=BY), teacher)
    list(training.run())
    assert_same(list(teacher.network.state_dict().values()), list(before.values()))
    assert not any(module.training for module in teacher.network.modules())
    assert all(parameter.grad is None for parameter in teacher.network.parameters())
    assert training.model.state_dict().keys() == small_training(small_recipe("adaste")).model.state_dict().keys()


def test_a_teacher_of_another_precision_computes_in_its_own() -> None:
    teacher, seen = trained_teacher(precision="bfloat16"), []
    teacher.network.register_forward_pre_hook(lambda network, args: seen.append(args[0].dtype))
    records = list(taught(small_recipe("adaste", distillation=BY), teacher).run())
    assert set(seen) == {torch.bfloat16}
    assert records[-1].loss < records[0].loss


@pytest.mark.parametrize("made", list(TAUGHT.values())[:2], ids=list(TAUGHT)[:2])
def test_a_teacher_of_weight_zero_changes_no_bit_of_the_training(made: Recipe) -> None:
    alone = small_training(dataclasses.replace(made, distillation=None))
    unheard = taught(dataclasses.replace(made, distillation=dataclasses.replace(BY, weight=0.0)), trained_teacher())
    assert timeless(list(unheard.run())) == timeless(list(alone.run()))
    assert_same(weights_of(unheard), weights_of(alone))


@pytest.mark.slow
def test_a_network_agrees_more_with_its_teacher_than_one_that_learned_alone() -> None:
    teacher, data = trained_teacher(), small_data(train=400)
    images = ((torch.tensor(data.test.images).float() / 255 - 0.5) / 0.25).permute(0, 3, 1, 2)
    known = teacher.network(images).log_softmax(1)
    distances = []
    for distillation, given in ((None, None), (dataclasses.replace(BY, weight=1.0, temperature=1.0), teacher)):
        made = small_recipe("adaste", epochs=10, distillation=distillation, network=MLP(widths=(64,)))
        training = Training(made, data, device=CPU, engine="eager", teacher=given)
        list(training.run())
        with training.exported() as model, torch.no_grad():
            model.eval()
            divergence = F.kl_div(model(images).log_softmax(1), known, reduction="batchmean", log_target=True)
            distances.append(float(divergence))
    assert distances[1] < 0.8 * distances[0]


@pytest.mark.parametrize(
    ("made", "teacher", "message"),
    [
        (small_recipe(distillation=BY), None, r"the recipe names a teacher \(distillation\), and none was given"),
        (small_recipe(), "one", r"the recipe names no teacher \(distillation\), and one was given"),
    ],
)
def test_a_recipe_and_its_teacher_come_together(made: Recipe, teacher: Any, message: str) -> None:
    given = teacher and Teacher(torch.nn.Identity(), torch.float32, "")
    with pytest.raises(ValueError, match=message):
        Training(made, small_data(), device=CPU, teacher=given)


@pytest.mark.slow
@every_recipe
@pytest.mark.parametrize("interrupted_after", [1, 6, 8], ids=lambda step: f"step {step}")
def test_an_interrupted_training_resumed_ends_the_same_to_the_last_bit(made: Recipe, interrupted_after: int) -> None:
    teacher = trained_teacher()
    whole = taught(made, teacher)
    wanted = timeless(list(whole.run()))
    first = taught(made, teacher)
    stopping_at(first, interrupted_after)
    second = taught(made, trained_teacher())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    rest = timeless(list(second.run()))
    assert rest == wanted[len(wanted) - len(rest) :]
    assert_same(weights_of(second), weights_of(whole))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixed images", "convolutions"])
def test_compiled_and_eager_steps_give_the_same_up_to_rounding(name: str) -> None:
    made = dataclasses.replace(TAUGHT[name], epochs=2, batch=32, precision="float32")
    eager, compiled = taught(made, trained_teacher()), taught(made, trained_teacher(), engine="compiled")
    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        records = list(zip(eager.run(), compiled.run(), strict=True))
    for one, other in records:
        assert other.loss == pytest.approx(one.loss, rel=1e-4)
        assert other.test_loss == pytest.approx(one.test_loss, rel=1e-3)
    for one, other in zip(weights_of(eager), weights_of(compiled), strict=True):
        assert (one - other).abs().gt(1e-3).float().mean() <= 0.01, "but for a few signs of latents near zero"
