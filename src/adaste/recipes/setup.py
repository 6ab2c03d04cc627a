"""The methods of the comparison in a training loop of one's own: the optimizer, and the scheduler of its rates."""

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from adaste._util.checks import require_count, require_kind, suggest
from adaste._util.warnings import warn_user
from adaste.estimators import FanIn, Scaled
from adaste.estimators.scaled import Scale
from adaste.estimators.schedules import Schedule
from adaste.optim.latent_optimizer import LatentOptimizer
from adaste.optim.partition import Selector, binary_weights
from adaste.recipes.bases import rate_at
from adaste.recipes.methods import FASTEST_PACE, METHODS, SHORTEST_MEASURED, Plan, Treatment


class RateScheduler(LRScheduler):
    """Sets the learning rate of every parameter group to the value of its schedule, once per optimizer step.

    It is a scheduler of torch like others. Each rate is a function of the number of steps alone, so a state dict holds
    that number and not the schedules: make the scheduler for the same steps, then load.

    Args:
        optimizer: The optimizer whose rates it sets.
        rates: A number or a schedule for each parameter group.
        steps: The length of the run. Warns at the first step beyond it, and once if the optimizer makes several steps
            between two of the scheduler's, because rates then fall too slowly.
    """

    def __init__(self, optimizer: LatentOptimizer, rates: Sequence[float | Schedule], *, steps: int) -> None:
        self._rates = tuple(rates)
        self._steps = steps
        self._warned = False
        self._made: int | None = None  # steps of the optimizer at the last step; None: not known
        super().__init__(optimizer)
        self._made = None  # it makes a step itself, and the optimizer may be given a saved state before the next

    def get_lr(self) -> list[Any]:
        """Return the rate of every group at the current step."""
        return [rate_at(rate, self.last_epoch) for rate in self._rates]

    def step(self, epoch: int | None = None) -> None:
        """Go to the next step and set its rates."""
        super().step(epoch)
        if self.last_epoch == self._steps + 1:
            warn_user(
                f"the learning rates were set up for {self._steps} steps, and training continues: they stay at their "
                "last values, mostly 0. Give adaste.setup the number of all optimizer steps, epochs * len(loader) "
                "without gradient accumulation, and step the scheduler once after each"
            )
        self._warn_of_skipped()

    def _warn_of_skipped(self) -> None:
        """Warn once where the optimizer has made several steps since the last step of the scheduler."""
        made = getattr(self.optimizer, "_steps", None)
        if not isinstance(made, int):  # on the device, where reading it would wait
            return
        skipped = 0 if self._made is None else made - self._made
        self._made = made
        if skipped > 1 and not self._warned:
            self._warned = True
            warn_user(
                f"the optimizer has made {skipped} steps since the last scheduler.step(), which sets the learning "
                "rates of one step: they fall too slowly. Step the scheduler once after each step of the optimizer, "
                'not once per epoch (in Lightning with "interval": "step")'
            )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to the step of a saved state."""
        super().load_state_dict(state_dict)
        self._made = None

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps and the rates at this step, as plain data."""
        own = ("optimizer", "_rates", "_steps", "_made", "_warned")
        return {name: value for name, value in super().state_dict().items() if name not in own}


def setup(
    model: nn.Module,
    *,
    steps: int,
    method: str = "binaryconnect",
    include: Selector | None = None,
    exclude: Selector | None = None,
    scale: Scale = FanIn(),
    examples: int = 50_000,
    compile: bool = False,
    capturable: bool = False,
) -> tuple[LatentOptimizer, RateScheduler]:
    """Return an optimizer that trains the weights of a model as single bits, and the scheduler of its learning rates.

        optimizer, scheduler = adaste.setup(model, steps=epochs * len(loader))
        for images, labels in loader:
            cross_entropy(model(images), labels).backward()
            optimizer.step(); scheduler.step(); optimizer.zero_grad()

    The method's estimator, base optimizer, learning rates and annealing are those of the named recipes, for a run of
    this many steps. A binary weight is `a * sign(theta)` (soft methods: `a * s(theta)`, with s towards sign), where the
    constant `a` of each layer is its `scale`.

    All other parameters (biases, norms, embeddings) are trained in full precision by the same base optimizer, with a
    learning rate of their own and without weight decay, which was no gain where it was measured (docs/own-loop.md).

    Args:
        model: The network, already on its device and wrapped by DDP or `fully_shard`. Its weights are overwritten by
            those of the method's first step.
        steps: Optimizer steps of the whole run. Learning rates fall to zero and annealing ends with the last one.
            Rates were measured in runs of 11,730 steps and more and are adapted to shorter ones.
        method: One of `adaste list methods`. The default trains small networks with norms and without. "adaste" is
            better for large networks with norms. Methods that fail without norms warn if they find none.
        include: Patterns or predicates of the weights that become binary, see `binary_weights`.
        exclude: Patterns or predicates of those that stay real.
        scale: The size of the binary weights. FanIn, sqrt(2 / fan_in), keeps activations and logits at the size they
            have in a usual network. Behind a layer that a norm follows it makes little difference. Unit() gives +-1.
        examples: Training examples, which BayesBiNN alone uses: its gradients are multiplied by 10 times as many. The
            default is the 50,000 of CIFAR, with which its rate was measured.
        compile: Fuse the optimizer's step, see `LatentOptimizer`.
        capturable: Keep step count and rates on the device, for CUDA graphs, see `LatentOptimizer`.

    Returns:
        The optimizer, and a torch scheduler to be stepped once after each of its steps. Save the state of both.

    Raises:
        ValueError: If there is no such method, a number is impossible, or the model has no weights to make binary.
    """
    require_kind("model", model, nn.Module)
    require_count("steps", steps, least=1)
    require_count("examples", examples, least=1)
    require_kind("scale", scale, Scale)
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}{suggest(str(method), METHODS)}. Methods: {', '.join(METHODS)}")
    optimizer, scheduler = assemble(
        model,
        METHODS[method].treat(Plan.of_steps(steps, examples)),
        steps=steps,
        include=include,
        exclude=exclude,
        scale=scale,
        compile=compile,
        capturable=capturable,
    )
    if steps * FASTEST_PACE < SHORTEST_MEASURED:
        warn_user(
            f"{steps} optimizer steps are very few: the rates were measured for {SHORTEST_MEASURED:,} steps and more, "
            f"and are adapted down to {SHORTEST_MEASURED // FASTEST_PACE}. Train for longer; if {steps} is the number "
            "of epochs, give steps=epochs * len(loader)"
        )
    hidden = len(optimizer.param_groups[0]["params"]) > 1
    if METHODS[method].needs_norms and hidden and not any("norm" in type(m).__name__.lower() for m in model.modules()):
        warn_user(
            f"the model has no normalization layers, and {method!r} learns badly or not at all in such networks. "
            "Put norms behind the layers or choose another method, such as 'binaryconnect'"
        )
    return optimizer, scheduler


def assemble(
    model: nn.Module,
    treatment: Treatment,
    *,
    steps: int,
    include: Selector | None = None,
    exclude: Selector | None = None,
    scale: Scale = FanIn(),
    compile: bool = False,
    capturable: bool = False,
) -> tuple[LatentOptimizer, RateScheduler]:
    """Return the optimizer and the scheduler of any treatment: `setup` but for its checks and the table of methods."""
    estimator, base = treatment.estimator, treatment.base
    binary, *rest = binary_weights(model, include=include, exclude=exclude)
    rest_lr = base.lr if treatment.rest_lr is None else treatment.rest_lr
    optimizer = LatentOptimizer(
        [binary, *(group | {"lr": rate_at(rest_lr, 0), "weight_decay": 0.0} for group in rest)],
        base=base.make(),
        estimator=Scaled(estimator, scale) if estimator.binary else estimator,
        averaging=treatment.averaging,
        compile=compile,
        capturable=capturable,
    )
    return optimizer, RateScheduler(optimizer, [base.lr, *(rest_lr for _ in rest)], steps=steps)
