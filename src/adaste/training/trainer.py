"""Training by a recipe: yields one record per epoch, and has a state to resume from exactly. Writes no files."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from adaste._util.serial import to_plain
from adaste.data import Dataset, Split, subset
from adaste.data.augment import Augmentation, generator
from adaste.estimators.schedules import Schedule, at_step
from adaste.optim.guards import NonFiniteGradientError
from adaste.optim.latent_optimizer import LatentOptimizer
from adaste.optim.partition import binary_weights
from adaste.recipes.bases import rate_at
from adaste.recipes.recipe import Recipe
from adaste.training.batches import BatchCursor, Planner, choose_feed, draw_batches, steps_of_recipe
from adaste.training.distributed import ALONE, World, synchronize_norms
from adaste.training.evaluation import (
    Evaluation,
    FlipCounter,
    LatentMean,
    NormEstimation,
    Score,
    evaluation_batch,
    in_mode,
)
from adaste.training.execution import WARM_UP, Execution, ExecutionMode, build_network, choose_execution, dtype_of
from adaste.training.records import DivergedError, Record
from adaste.training.step import Progress, Teacher, TrainingStep


class Training:
    """Trains by a recipe on a device.

        training = Training(recipe, dataset, device=torch.device("cuda"))
        for record in training.run():
            print(record.epoch, record.test_accuracy)

    Args:
        engine: "auto", "eager", "compiled" or "graph"; all give the same result, up to rounding.
        teacher: The one that the recipe's distillation names, on the same device: adaste.runs.teacher.find_teacher.
    """

    def __init__(
        self,
        recipe: Recipe,
        dataset: Dataset,
        *,
        device: torch.device,
        engine: str = "auto",
        world: World = ALONE,
        teacher: Teacher | None = None,
    ) -> None:
        if (recipe.distillation is None) != (teacher is None):
            wants = "names no" if recipe.distillation is None else "names a"
            given = "none was given" if teacher is None else "one was given"
            raise ValueError(f"the recipe {wants} teacher (distillation), and {given}: see adaste.runs.teacher")
        self.recipe, self.dataset, self.world = recipe, dataset, world
        self.epoch, self.step = 0, 0
        self._image_shape, self._classes = dataset.train.images.shape[1:], len(dataset.classes)
        self.steps_per_epoch = steps_of_recipe(recipe, dataset, world)
        kept, self._held_out = _divided(dataset.train, recipe.holdout)
        self._augmentation = Augmentation(recipe.augmentation, dataset.mean, dataset.std)
        self.model = build_network(recipe, self._augmentation, self._image_shape, self._classes, device)
        if recipe.sync_norm and world.size > 1:
            synchronize_norms(self.model)
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        steps = recipe.epochs * self.steps_per_epoch
        self.execution: Execution = choose_execution(
            engine, device=device, world=world, parameters=parameters, steps=steps
        )
        self._check_sides()
        self._in_steps = recipe.in_steps(self.steps_per_epoch)
        self.optimizer, self._rates = self._make_optimizer()
        self.feed = choose_feed(kept, device, world.share(recipe.batch))
        self._planner = Planner(recipe, self._augmentation, self.feed, world, self._rates)
        self._cursor = BatchCursor(self.feed, device)
        self.device = self._cursor.device
        self._train = TrainingStep(
            network=self._parallel(),
            optimizer=self.optimizer,
            cursor=self._cursor,
            augmentation=self._augmentation,
            label_smoothing=recipe.label_smoothing,
            dtype=dtype_of(recipe),
            mode=self.execution.mode,
            distillation=recipe.distillation,
            teacher=teacher,
        )
        self._tests: dict[str, Evaluation] = {}
        self._norms: NormEstimation | None = None
        self._flips = FlipCounter(self.optimizer)
        self._mean = LatentMean(self.optimizer, epochs=recipe.epochs, last=recipe.average_last)

    def run(
        self,
        after_step: Callable[[], None] = lambda: None,
        tested: Callable[[nn.Module, float], None] = lambda network, accuracy: None,
        *,
        tests: bool = True,
    ) -> Iterator[Record]:
        """Train to the end, from the first epoch or from the state that was loaded.

        `after_step` is called after every step and may raise to stop; `tested` after every test, with the network as it
        would be exported and the accuracy that decides which epoch is best. Without `tests` there are none, not even
        of the last epoch.
        """
        while self.epoch < self.recipe.epochs:
            yield self._epoch(after_step, tested, tests)

    def warm_up(self) -> None:
        """Compile and capture all that training needs, and begin anew: `run` then waits for no compiler."""
        for side in {self._side_at(epoch) for epoch in range(self.recipe.epochs)}:
            self._train.shrink_to(side)
            for _ in range(WARM_UP + 1):
                self._cursor.begin(*self._planner.plan(0))
                self._train()
        with self.exported():
            pass
        self.restart()

    def restart(self, seed: int | None = None) -> None:
        """Begin anew, with another seed if one is given; what is compiled or captured stays valid.

        The same training follows as from a new object, up to the rounding of a compiled optimizer, whose very first
        step is not compiled.

        Raises:
            ValueError: The method draws random numbers, and the seed is another one.
        """
        recipe = self.recipe if seed is None else self.recipe.with_seed(seed)
        if recipe.estimator != self.recipe.estimator:
            raise ValueError(
                f"{type(recipe.estimator).__name__} draws random numbers from a seed of its own, which a captured step "
                "holds: make a new training for another seed"
            )
        self.recipe, self.epoch, self.step = recipe, 0, 0
        new = build_network(recipe, self._augmentation, self._image_shape, self._classes, self.device).state_dict()
        with torch.no_grad():
            for name, tensor in self.model.state_dict().items():
                tensor.copy_(new[name])
        self.optimizer.restart()
        self._planner = Planner(recipe, self._augmentation, self.feed, self.world, self._rates)
        self._mean = LatentMean(self.optimizer, epochs=recipe.epochs, last=recipe.average_last)

    def evaluate(self, split: str = "test") -> Score:
        """Return loss and accuracy of the weights as exported, on "test" or "holdout"."""
        with self.exported():
            return self._test(split)()

    @contextmanager
    def exported(self) -> Iterator[nn.Module]:
        """Inside, the model is as exported: weights binary, BatchNorm with statistics for them; then as before."""
        self._checked_progress()
        self.world.average_buffers(self.model)
        recipe = self.recipe
        averaged = recipe.average_last > 0 and self.epoch == recipe.epochs
        stale = recipe.norm_batches > 0 and (recipe.norm_always or averaged or self.optimizer.is_soft())
        with self.optimizer.binarized(), self._norm_estimation()() if stale else nullcontext():
            yield self.model

    def _epoch(self, after_step: Callable[[], None], tested: Callable[[nn.Module, float], None], tests: bool) -> Record:
        started, first = time.perf_counter(), self.step
        self._cursor.begin(*self._planner.plan(self.epoch), first=first)
        self._train.shrink_to(self._side_at(self.epoch))
        if first == 0:
            self._flips.restart()
            self._train.resume(Progress())
        self.model.train()
        while self.step < self.steps_per_epoch:
            try:
                self._train()
            except NonFiniteGradientError as error:
                # On a GPU the error is of an earlier step, perhaps of the first one whose loss was not finite.
                bad = self._train.progress().first_bad
                raise DivergedError(self.epoch, self.step if bad < 0 else bad, str(error)) from error
            self.step += 1
            after_step()
        if self.epoch + 1 < self.recipe.epochs:
            self._planner.look_ahead(self.epoch + 1)  # while a GPU still works off its steps
        progress = self._checked_progress()
        seconds = time.perf_counter() - started
        images = (self.steps_per_epoch - first) * self.recipe.batch
        return self._record(progress, seconds, images / seconds, tested, tests)

    def _checked_progress(self) -> Progress:
        """Return the totals of all processes. Raise DivergedError in all if a number was not finite in any."""
        progress = self._train.progress()
        bad = self.world.largest(progress.first_bad, self.device)
        try:
            self.optimizer.check_gradients()
        except NonFiniteGradientError as error:
            raise DivergedError(self.epoch, bad, str(error)) from error
        if bad >= 0:
            raise DivergedError(self.epoch, bad, "the loss was not finite")
        if not self._flips.latents_are_finite():
            raise DivergedError(self.epoch, bad, "latent weights were not finite")
        values = torch.tensor([progress.loss, progress.correct, progress.seen], dtype=torch.float64, device=self.device)
        total, correct, seen = self.world.add(values).tolist()
        return Progress(total, correct, seen, -1)

    def _record(
        self,
        progress: Progress,
        seconds: float,
        speed: float,
        tested: Callable[[nn.Module, float], None],
        tests: bool,
    ) -> Record:
        flipped, latent = self._flips.changes()
        lr = float(self.optimizer.param_groups[0]["lr"])
        epoch, self.epoch, self.step = self.epoch, self.epoch + 1, 0
        self._mean.epoch_ended(self.epoch)
        started = time.perf_counter()
        test = held_out = None
        if tests and (self.epoch % self.recipe.evaluate_every == 0 or self.epoch == self.recipe.epochs):
            with self.exported() as network:
                test = self._test("test")()
                held_out = self._test("holdout")() if self.recipe.holdout else None
                tested(network, (held_out or test).accuracy)
        return Record(
            epoch=epoch,
            loss=progress.loss / progress.seen,
            train_accuracy=100 * progress.correct / progress.seen,
            test_loss=test.loss if test else None,
            test_accuracy=test.accuracy if test else None,
            holdout_accuracy=held_out.accuracy if held_out else None,
            lr=lr,
            method=self._method_now(),
            flipped=flipped,
            latent=latent,
            seconds=seconds,
            images_per_second=speed,
            evaluation_seconds=time.perf_counter() - started,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed training needs, as plain data and tensors (those of the training, not copies).

        Raises:
            DivergedError: There is nothing to resume from.
        """
        progress = self._checked_progress()
        self.world.average_buffers(self.model)
        return {
            "epoch": self.epoch,
            "step": self.step,
            "progress": asdict(progress),
            "signs": self._flips.state(),
            "latent_means": self._mean.state(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "random_on_device": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a `state_dict`; training then continues, to the last bit, as if there had been no interruption."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.step = state["epoch"], state["step"]
        self._train.renew()
        # The totals are those of all processes, whatever their number was: one of them counts them.
        self._train.resume(Progress(**state["progress"]) if self.world.leads else Progress())
        self._flips.load(state["signs"])
        self._mean.load(state.get("latent_means", []))  # older states have none
        torch.set_rng_state(state["random"])
        if state["random_on_device"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_on_device"], self.device)

    def _make_optimizer(self) -> tuple[LatentOptimizer, list[float | Schedule]]:
        recipe = self._in_steps
        weights = binary_weights(self.model, include=recipe.include or None, exclude=recipe.exclude or None)
        binary, *rest = weights
        rates: list[float | Schedule] = [recipe.base.lr]
        for group in rest:
            rates.append(recipe.base.lr if recipe.rest_lr is None else recipe.rest_lr)
            group["lr"] = rate_at(rates[-1], 0)
        optimizer = LatentOptimizer(
            [binary, *rest],
            base=recipe.base.make(),
            estimator=recipe.estimator,
            averaging=recipe.averaging,
            compile=self.execution.mode is not ExecutionMode.EAGER,
        )
        return optimizer, rates

    def _side_at(self, epoch: int) -> int | None:
        """Return the side of the images that the network is trained with in an epoch; None if they stay as they are."""
        return None if self.recipe.side is None else int(self.recipe.side.at(epoch))

    @torch.no_grad()
    def _check_sides(self) -> None:
        """Raise ValueError if the images or the network do not suit the sides of the recipe."""
        values = self.recipe.side.values if self.recipe.side else ()
        height, width, channels = self._image_shape
        size = self._augmentation.output_size((height, width))
        if values and (size[0] != size[1] or max(values) > size[0]):
            raise ValueError(
                f"side shrinks images to squares, and those of this recipe have {size[0]} x {size[1]} pixels: they "
                f"must be squares with sides of {max(values):g} or more"
            )
        weight = next(self.model.parameters())
        for side in {int(value) for value in values}:
            try:
                with in_mode(self.model, training=False):
                    self.model(weight.new_zeros(1, channels, side, side))
            except RuntimeError as error:
                raise ValueError(f"the network does not take images of {side} x {side} pixels: {error}") from error

    def _parallel(self) -> nn.Module:
        if self.world.size == 1:
            return self.model
        # Statistics of BatchNorm are averaged before they are used: broadcasting them at every step would cost more.
        device_ids = [self.device.index] if self.device.type == "cuda" else None
        with warnings.catch_warnings():  # torch 2.13 wants another name for that, which 2.11 does not know
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            return DistributedDataParallel(self.model, device_ids=device_ids, broadcast_buffers=False)

    def _test(self, split: str) -> Evaluation:
        if split not in self._tests:
            images = self._images_of(split)
            self._tests[split] = Evaluation(
                network=self.model,
                cursor=BatchCursor(
                    choose_feed(images, self.device, evaluation_batch(len(images), self.world)), self.device
                ),
                augmentation=self._augmentation,
                dtype=dtype_of(self.recipe),
                mode=self.execution.mode,
                world=self.world,
            )
        return self._tests[split]

    def _images_of(self, split: str) -> Split:
        splits = {"test": self.dataset.test, "holdout": self._held_out}
        if split not in splits:
            raise ValueError(f"split must be one of {', '.join(splits)}, got {split!r}")
        images = splits[split]
        if images is None:
            raise ValueError('there are no images held out to evaluate "holdout" on: the recipe has holdout 0')
        return images

    def _norm_estimation(self) -> NormEstimation:
        if self._norms is None:
            most, same_for_all_runs = self.recipe.norm_batches, 0
            order, draws = draw_batches(
                self.recipe, self._augmentation, self.feed, self.world, seed=same_for_all_runs, epoch=0, most=most
            )
            self._norms = NormEstimation(
                network=self.model,
                cursor=BatchCursor(self.feed.fork(), self.device),
                augmentation=self._augmentation,
                dtype=dtype_of(self.recipe),
                mode=self.execution.mode,
                order=order,
                draws=draws,
                world=self.world,
            )
        return self._norms

    def _method_now(self) -> dict[str, Any]:
        plain = to_plain(at_step(self._in_steps.estimator, self.optimizer.steps))
        return {name: value for name, value in plain.items() if isinstance(value, int | float)}


def _divided(split: Split, held_out: int) -> tuple[Split, Split | None]:
    """Return the images to train with and those held out, if any; the same for every seed."""
    if held_out == 0:
        return split, None
    order = torch.randperm(len(split), generator=generator(0, 0, "holdout")).numpy()
    return subset(split, np.sort(order[held_out:])), subset(split, np.sort(order[:held_out]))
