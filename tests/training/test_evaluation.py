"""Evaluation equals a plain loop; statistics of BatchNorm for rounded weights are means over batches."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from adaste.data.augment import Augmentation, Crop, Flip, of_step, order_of_epoch
from adaste.models import MLP
from adaste.training.batches import BatchCursor, Resident
from adaste.training.distributed import ALONE
from adaste.training.evaluation import Evaluation, NormEstimation
from adaste.training.execution import ExecutionMode
from support.small_runs import CONVOLUTIONAL, CPU, assert_same, small_data, small_recipe, small_training, weights_of


def _prepared(images) -> torch.Tensor:
    return ((torch.from_numpy(images.copy()).float() / 255 - 0.5) / 0.25).permute(0, 3, 1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 7, 50, 53, 1000])
@pytest.mark.parametrize("count", [1, 53])
def test_an_evaluation_equals_a_plain_loop_for_any_batch(count, batch, monkeypatch) -> None:
    monkeypatch.setattr("adaste.training.evaluation.BATCH", batch)
    data = small_data(test=count)
    training = small_training(small_recipe("full-precision", network=CONVOLUTIONAL, norm_always=False), data)
    next(training.run())
    training.model.train()
    before = weights_of(training)
    score = training.evaluate()
    assert training.model.training
    assert_same(weights_of(training), before)
    training.model.eval()
    with torch.no_grad():
        logits = training.model(_prepared(data.test.images))
    labels = torch.tensor(data.test.labels)
    assert score.count == count
    assert score.loss == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-5)
    assert score.accuracy == pytest.approx(100 * (logits.argmax(1) == labels).float().mean().item())


def test_an_evaluation_leaves_a_network_in_evaluation_mode_there() -> None:
    training = small_training(small_recipe())
    training.model.eval()
    training.evaluate()
    assert not training.model.training


class _Failing(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError


def test_an_evaluation_that_fails_leaves_the_mode_alone() -> None:
    network = _Failing()
    evaluation = Evaluation(
        network=network,
        cursor=BatchCursor(Resident(small_data().test, CPU), CPU),
        augmentation=Augmentation((), (0.5,), (0.25,)),
        dtype=torch.float32,
        mode=ExecutionMode.EAGER,
        world=ALONE,
    )
    with pytest.raises(ArithmeticError):
        evaluation()
    assert network.training


ORDER = order_of_epoch(seed=0, epoch=0, count=100, batch=20)


def _estimation(network: nn.Module) -> NormEstimation:
    return NormEstimation(
        network=network,
        cursor=BatchCursor(Resident(small_data().train, CPU), CPU),
        augmentation=Augmentation((), (0.5,), (0.25,)),
        dtype=torch.float32,
        mode=ExecutionMode.EAGER,
        order=ORDER,
        draws={},
        world=ALONE,
    )


def test_estimated_statistics_are_the_means_over_batches_and_go_afterwards() -> None:
    norm = nn.BatchNorm2d(1, momentum=0.3)
    norm.running_mean.fill_(7.0)
    images = [_prepared(small_data().train.images[index.numpy()]) for index in ORDER]
    with _estimation(nn.Sequential(norm))():
        assert norm.running_mean.item() == pytest.approx(torch.stack([batch.mean() for batch in images]).mean().item())
        assert norm.running_var.item() == pytest.approx(torch.stack([batch.var() for batch in images]).mean().item())
        assert norm.momentum == 0.3
    assert (norm.running_mean.item(), norm.running_var.item(), norm.momentum) == (7.0, 1.0, 0.3)


def test_statistics_are_restored_after_an_error_inside_and_in_the_estimation_itself() -> None:
    norm = nn.BatchNorm2d(1, momentum=0.3)
    norm.running_mean.fill_(7.0)
    with pytest.raises(ZeroDivisionError), _estimation(nn.Sequential(norm))():
        raise ZeroDivisionError
    network = nn.Sequential(norm, _Failing())
    network.eval()
    with pytest.raises(ArithmeticError), _estimation(network)():
        pytest.fail("not reached")
    assert (norm.running_mean.item(), norm.running_var.item(), norm.momentum) == (7.0, 1.0, 0.3)
    assert not network.training


@pytest.mark.parametrize("always", [False, True])
def test_statistics_are_estimated_while_weights_are_soft_and_only_then_unless_always(monkeypatch, always) -> None:
    training = small_training(small_recipe("adaste-printed-annealed", epochs=4, norm_always=always))
    estimated, estimate = [], NormEstimation._estimate
    monkeypatch.setattr(NormEstimation, "_estimate", lambda self: (estimated.append(training.epoch), estimate(self)))
    soft = []
    for _ in training.run():
        soft.append(training.optimizer.is_soft())
    assert soft[0] and not soft[-1]
    assert estimated == [epoch + 1 for epoch, was in enumerate(soft) if was or always]


@pytest.mark.parametrize("method", ["binaryconnect", "full-precision"])
def test_networks_train_the_same_whether_or_not_statistics_are_re_estimated_for_tests(method) -> None:
    trainings = [
        small_training(small_recipe(method, network=CONVOLUTIONAL, norm_always=always)) for always in (False, True)
    ]
    running, estimated = ([(record.loss, record.test_loss) for record in training.run()] for training in trainings)
    assert_same(*map(weights_of, trainings))
    for one, other in zip(running, estimated, strict=True):
        assert one[0] == other[0] and one[1] != other[1]


def test_a_network_without_norms_is_tested_as_it_is() -> None:
    bare = MLP(widths=(16,), norm_hidden=False, logits_norm=False)
    tested = [
        [record.test_loss for record in small_training(small_recipe(network=bare, norm_always=always)).run()]
        for always in (False, True)
    ]
    assert tested[0] == tested[1]


def test_statistics_of_rounded_weights_are_those_of_augmented_images() -> None:
    made = small_recipe("pmf", network=CONVOLUTIONAL, augmentation=(Crop(padding=4), Flip()), norm_batches=3)
    data = small_data()
    training = small_training(made, data)
    next(training.run())
    seen: list[torch.Tensor] = []
    hook = training.model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].clone()))
    with training.exported():
        hook.remove()
    augmentation = Augmentation(made.augmentation, data.mean, data.std)
    order = order_of_epoch(seed=0, epoch=0, count=len(data.train), batch=made.batch)[:3]
    draws = augmentation.draw(seed=0, epoch=0, order=order, image_size=data.train.images.shape[1:3])
    for step, (index, images) in enumerate(zip(order, seen, strict=True)):
        chosen, labels = (torch.tensor(part[index.numpy()]) for part in (data.train.images, data.train.labels))
        assert torch.equal(images, augmentation.apply(chosen, labels, of_step(draws, step), torch.float32).images)
        assert not torch.equal(images, augmentation.prepare(chosen, torch.float32))


def test_rounded_weights_with_their_own_statistics_are_what_is_tested() -> None:
    made, data = small_recipe("pmf", network=CONVOLUTIONAL), small_data()
    training = small_training(made, data)
    record = next(training.run())
    with training.exported() as model:
        model.eval()
        with torch.no_grad():
            loss = F.cross_entropy(model(_prepared(data.test.images)), torch.tensor(data.test.labels)).item()
        statistics = [buffer.clone() for buffer in model.buffers()]
    assert record.test_loss == pytest.approx(loss, rel=1e-5)
    assert any(not torch.equal(one, other) for one, other in zip(statistics, model.buffers(), strict=True))
