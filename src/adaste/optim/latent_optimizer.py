"""LatentOptimizer: binary training as a torch optimizer around any other torch optimizer."""

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import is_
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo as disable_dynamo
from torch.optim import Optimizer

from adaste._util.warnings import warn_user
from adaste.estimators import Estimator
from adaste.estimators.schedules import Schedule, at_step
from adaste.optim.fused import RULES, CompiledStep
from adaste.optim.guards import (
    GradientGuard,
    WriteTracker,
    check_base,
    check_devices,
    check_group,
    check_made,
    check_model,
    check_not_rounded,
    check_output_axes,
    still_hold,
    warn_of_lost,
    warn_of_vectors,
)
from adaste.optim.norm_statistics import MOST_BATCHES, norms_in_use, reestimate_norms
from adaste.optim.parameters import (
    Method,
    Moment,
    Part,
    StepInputs,
    assign_moments,
    dense_grad,
    moments_at,
    parts_in,
    two_moments,
)
from adaste.optim.state import (
    adopt,
    apply_hooks,
    base_group,
    base_state,
    check_state,
    first_state,
    forget_gathered,
    keep_rates,
    loaded_group,
    local,
    mirror,
    new_state,
    outside_parameters,
    saved_group,
    saved_state,
    show_changes,
    states_in_order,
)
from adaste.optim.step import EagerStep

# torch's compiler would drop writes of a method into attributes, as a count of steps: methods with `disable_dynamo` are
# called as they are. This decorator of torch's own optimizers loads the compiler, which takes seconds, at the first
# call only.


class LatentOptimizer(Optimizer):
    """A torch optimizer that trains the weights of a network through latent weights, by any estimator and any base
    optimizer.

        weights = adaste.binary_weights(model)
        base = partial(torch.optim.SGD, lr=0.1)
        optimizer = LatentOptimizer(weights, base=base, estimator=adaste.AdaSTE())

    One step, for every method (`Estimator` has its functions):

        theta      <- carry(theta, w)
        theta.grad <- gradient(dl/dw, theta, w)
        base.step()
        theta      <- settle(theta, w)
        w          <- weight(theta, w)

    Making it overwrites the weights of the network by those that the estimator gives for the first step. The latents
    are float32 (float64 for float64 weights), whatever the type of the weights. Load a network before you make its
    optimizer, or together with the optimizer's own state; else the next step undoes it, with a warning. Under DDP all
    ranks must start from the same weights when the optimizer is made (after wrapping the model they do).

    Args:
        params: The result of `binary_weights`, or parameters or parameter groups as for any torch optimizer. A group
            may have its own `estimator`, `averaging` and settings of the base optimizer, and `output_axes`: an
            OutputAxis for each of its parameters, where some are weights whose output channels do not lie along
            dimension 0 (`binary_weights` knows them).
        base: Makes the optimizer of the latents: called with parameter groups.
        estimator: The method: how weights follow from latents, and the gradient of latents from that of weights.
        averaging: The estimator sees an exponential average of dl/dw with this rate, free of bias, instead of dl/dw; 0
            for none. May follow a schedule.
        compile: Fuse the step with torch.compile; for SGD, Adam, AdamW and RMSprop as base. Implies `capturable`. The
            learning rate may change at every step; a change of another setting of the base, or of which parameters have
            a gradient, compiles anew, and after a few such changes the step goes on uncompiled, with a warning. So does
            one that torch's compiler fails on.
        capturable: Keep the step count, the learning rate and all scheduled values in tensors on the device of the
            weights, so that a CUDA graph that holds a step sees their current values. Without `compile` the base must
            be able to do the same: SGD(fused=True), Adam(capturable=True). Between replays, change a learning rate in
            its tensor, as torch's schedulers do: a number is read by steps that are not replayed.

    Raises:
        TypeError: If `base` makes no optimizer, `estimator` is no Estimator, or a parameter is no tensor of real
            numbers.
        ValueError: If `base` makes an optimizer of other parameters, a parameter comes twice, `averaging` is outside of
            [0, 1), `output_axes` do not fit, `compile` does not know the base optimizer, or weights of a compiled or
            capturable optimizer lie on several devices.
    """

    base: Optimizer

    def __init__(
        self,
        params: Iterable[Any],
        *,
        base: Callable[[list[dict[str, Any]]], Optimizer],
        estimator: Estimator,
        averaging: float | Schedule = 0.0,
        compile: bool = False,
        capturable: bool = False,
    ) -> None:
        check_base(base)
        self._compile = compile
        self._steps: int | Tensor = 0
        self._equip()
        super().__init__(params, {"estimator": estimator, "averaging": averaging})
        if compile or capturable:
            self._steps = torch.zeros((), dtype=torch.int64, device=check_devices(self.param_groups))
        made = base([self._base_group(group) for group in self.param_groups])
        check_made(made, [self._latents_of(group) for group in self.param_groups])
        self.base = made
        if compile and type(self.base) not in RULES:
            known = ", ".join(optimizer.__name__ for optimizer in RULES)
            raise ValueError(f"compile=True knows the base optimizers {known}, got {type(self.base).__name__}")
        self.defaults = {**self.base.defaults, **self.defaults}
        for group, of_base in zip(self.param_groups, self.base.param_groups, strict=True):
            self._adopt_settings(group, of_base)
        self._keep_rates()
        self._write_weights(self._parameters())
        self._writes.accept(self._parameters())
        warn_of_vectors(self.param_groups)

    @property
    def steps(self) -> int:
        """The number of steps made."""
        return int(self._steps)

    def latents(self) -> Iterator[tuple[str, Tensor]]:
        """Yield name and latent of every binary weight.

        Yields:
            The name of the parameter, and a tensor with one number per weight.
        """
        for parameter, estimator in self._with_estimators(self._parameters()):
            if estimator.binary:
                yield parameter.name, estimator.position(parameter.latent.detach())

    @torch.no_grad()
    def signs(self) -> Iterator[Tensor]:
        """Yield, for every binary weight, whether it would be exported as positive.

        Yields:
            A tensor of booleans for each parameter, in the order of `latents`.
        """
        for parameter, estimator in self._with_estimators(self._parameters()):
            if estimator.binary:
                yield parameter.export(estimator) >= 0

    @torch.no_grad()
    def is_soft(self) -> bool:
        """Return whether any weight the network computes with differs from the one it would be exported with.

        Returns:
            False if all weights are binary already, or trained in full precision.
        """
        # One after the other: they may lie on several devices.
        return any(
            not torch.equal(parameter.weight, parameter.export(estimator))
            for parameter, estimator in self._with_estimators(self._parameters())
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own settings; settings that are not given are those of the optimizer.

        Args:
            param_group: A dictionary with "params", and settings of the group.

        Raises:
            TypeError: If the parameters come as a set, or a value has the wrong type.
            ValueError: If a parameter is in the optimizer already, or a setting is out of range.
        """
        params = param_group["params"]
        if isinstance(params, set | frozenset):
            raise TypeError("parameters must come in an order that is the same in every run, got a set: use a list")
        group = {**param_group, "params": [params] if isinstance(params, Tensor) else list(params)}
        if "output_axes" in group:
            group["output_axes"] = tuple(group["output_axes"])
        method = {**self.defaults, **group}
        known: dict[Tensor, str] = {each.parameter: each.name for each in self._parameters()}
        check_group(group["params"], method["estimator"], method["averaging"], known)
        check_output_axes(method)
        super().add_param_group(group)
        group = self.param_groups[-1]
        for weight in group["params"]:
            self.state[weight] = new_state(weight, at_step(group["estimator"], self._steps), group["averaging"])
        if hasattr(self, "base"):  # not yet while torch's constructor adds the first groups
            self.base.add_param_group(self._base_group(group))
            self._adopt_settings(group, self.base.param_groups[-1])
            self._keep_rates()
            self._write_weights([each for each in self._parameters() if each.group == len(self.param_groups) - 1])
            warn_of_vectors([group])

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @disable_dynamo
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one step of all parameters that have a gradient; a latent without one does not move.

        The error for a gradient that is not finite comes before anything has changed on a CPU; on a GPU at the first
        step or query after the news has arrived (the step that met the gradient left the latents of its parameter
        unchanged). In shards, the rank that holds the bad part raises.

        Args:
            closure: Computes the loss and its gradients again, as for any torch optimizer.

        Returns:
            The loss that `closure` returned; None without one.

        Raises:
            NonFiniteGradientError: If a gradient holds NaN or infinite values.
            RuntimeError: Inside `binarized`.
        """
        check_not_rounded(self._rounded, "step()")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            parameters = self._parameters()
            warn_of_lost(self._with_estimators(self._writes.by_others(parameters)))
            inputs = self._inputs(parameters)
            self._keep_rates()
            suits = self._compile and inputs.parts and self._compiled.suits(self.base, self.param_groups, inputs.parts)
            if not (suits and self._compiled.step(self.base, self.param_groups, inputs, self._steps)):
                self._mirror_settings()
                self._eager.step(self.base, inputs)
                if not self._compile:  # those that can be compiled change none
                    show_changes(self.param_groups, self.base.param_groups)
                self._steps += 1
            if len(inputs.parts) < len(parameters):
                # A latent without gradient stays, but its weight follows an annealed map.
                self._write_weights([each for each in parameters if each.parameter.grad is None])
            self._writes.accept(parameters)
        return loss

    @contextmanager
    def binarized(
        self,
        model: nn.Module | None = None,
        *,
        statistics_from: Iterable[Any] | None = None,
        forward: Callable[[Any], object] | None = None,
        most: int = MOST_BATCHES,
    ) -> Iterator[None]:
        """Return a context in which the network has the weights it will be exported with; afterwards it has those of
        training.

            with optimizer.binarized(model, statistics_from=loader): evaluate(model)

        Running statistics of BatchNorm remember networks of earlier batches, whose signs have flipped since, or whose
        weights were soft. With `statistics_from` they are re-estimated for the rounded weights, and put back
        afterwards.

        Args:
            model: The network the optimizer was made for, wrapped or not, or a part of it; no copy. Needed with
                `statistics_from`, and under FSDP2: it may still hold gathered weights of before, and must be told to
                forget them.
            statistics_from: Batches as the network is trained with, augmented if they are.
            forward: Called with a batch instead of the model, see `adaste.reestimate_norms`.
            most: The number of batches that are drawn at most, 50 by default.

        Yields:
            Nothing; use it in a `with` statement.

        Raises:
            ValueError: If the model holds none of the optimizer's weights, if `statistics_from` is given without a
                model, or if `adaste.reestimate_norms` raises.
            NonFiniteGradientError: If an earlier step on a GPU met a gradient that is not finite.
        """
        estimation: AbstractContextManager[None] = nullcontext()
        self._check_model(model)
        if statistics_from is None:
            self._warn_of_old_statistics(model)
        elif model is None:
            raise ValueError(
                "statistics_from needs the model whose statistics are re-estimated, and none was given: use "
                "binarized(model, statistics_from=...)"
            )
        else:
            estimation = reestimate_norms(model, statistics_from, forward=forward, most=most)
        kept, nested = self._kept_weights(), self._rounded
        try:
            self._round_weights()
            with estimation:
                yield
        finally:
            self._put_back(kept, model, rounded=nested)

    @disable_dynamo
    def check_gradients(self) -> None:
        """Wait for the GPU, and raise if a step met a gradient that is not finite.

        Raises:
            NonFiniteGradientError: If one did.
        """
        self._guard.raise_pending([each.name for each in self._parameters()])

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs beside the network's own state, as plain data in torch's usual layout.

        Before the first step it has places for the base optimizer's future state, too: torch.distributed.checkpoint
        loads only what a new optimizer has a place for.

        Returns:
            A dictionary with "state" and "param_groups".

        Raises:
            NonFiniteGradientError: If an earlier step on a GPU met a gradient that is not finite.
        """
        self.check_gradients()
        # torch's hooks are called here and not by its own method: they are to see the whole state.
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        self._mirror_settings()  # they decide what a first step makes
        begun = self.steps or self.base.state  # a CUDA graph may hold a state and not have counted its step yet
        kept = self.base.state_dict()
        among, around = outside_parameters(kept)
        of_base = kept["state"] if begun else first_state(self.base)
        parameters = self._parameters()
        states = {each.slot: saved_state(self.state[each.parameter], of_base.get(each.slot, {})) for each in parameters}
        packed: dict[str, Any] = {
            **around,
            "state": {**states, **among},
            "param_groups": [
                saved_group(
                    group, [each.slot for each in parameters if each.group == index], self.steps, self._kind_of_base
                )
                for index, group in enumerate(self.param_groups)
            ],
        }
        return apply_hooks(self._optimizer_state_dict_post_hooks, self, packed)

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict`; the same groups, shapes, estimators and kind of base optimizer are required.

        Whether values live in tensors (`compile`, `capturable`) need not be the same. The base optimizer gets new
        tensors: a CUDA graph that holds a step must be captured anew.

        Args:
            state_dict: The result of `state_dict`.

        Raises:
            ValueError: If it is that of another optimizer; nothing has changed then.
            RuntimeError: Inside `binarized`.
        """
        check_not_rounded(self._rounded, "load_state_dict()")
        state_dict = apply_hooks(self._optimizer_load_state_dict_pre_hooks, self, state_dict.copy())
        groups, saved = state_dict["param_groups"], states_in_order(state_dict)
        parameters = self._parameters()
        named = [(each.name, self.state[each.parameter]) for each in parameters]
        check_state(groups, saved, self.param_groups, named, self._kind_of_base)
        self.param_groups = [loaded_group(group, own) for group, own in zip(groups, self.param_groups, strict=True)]
        for parameter in parameters:
            for name, tensor in self.state[parameter.parameter].items():
                local(tensor).copy_(local(saved[parameter.slot][name]))
        self._mirror_settings()
        steps = groups[0]["steps"]
        # Before the first step there is only a place for it.
        of_base = {slot: base_state(entries) for slot, entries in enumerate(saved)} if steps else {}
        among, around = copy.deepcopy(outside_parameters(state_dict))
        base_groups = self.base.state_dict()["param_groups"]
        self.base.load_state_dict({**around, "state": {**of_base, **among}, "param_groups": base_groups})
        self._steps = self._steps.fill_(steps) if isinstance(self._steps, Tensor) else steps
        self._guard.forget()  # the steps that met it are left behind
        self._write_weights(parameters, unless_close=True)
        self._writes.accept(parameters)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    @torch.no_grad()
    def restart(self) -> None:
        """Begin anew from the present weights of the network: at step 0, with their latents and an empty base.

        All of it happens in the memory of before: a compiled step and a CUDA graph that holds a step stay valid. The
        weights are then those of a new optimizer's first step. Settings of the base optimizer stay as they are.

        Raises:
            ValueError: If the base optimizer is SGD with dampening, whose first step is unlike all others.
            RuntimeError: Inside `binarized`.
        """
        check_not_rounded(self._rounded, "restart()")
        if any(group.get("dampening") for group in self.param_groups):
            raise ValueError(
                "restart() empties the memory of the base optimizer, and SGD with dampening does not start from an "
                "empty one: make a new optimizer, or use dampening 0"
            )
        self._guard.forget()  # the steps that met it are left behind
        self._steps = self._steps.zero_() if isinstance(self._steps, Tensor) else 0
        for group in self.param_groups:
            estimator = at_step(group["estimator"], self._steps)
            for weight in group["params"]:
                for name, tensor in new_state(weight, estimator, group["averaging"]).items():
                    local(self.state[weight][name]).copy_(local(tensor))
        for state in self.base.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.zero_()
        parameters = self._parameters()
        self._write_weights(parameters)
        self._writes.accept(parameters)

    def __getstate__(self) -> dict[str, Any]:
        # torch copies groups and state alone. The equipment of an optimizer stays behind: it serves that one.
        own = {name: self.__dict__[name] for name in ("base", "_compile", "_steps")}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_guard" not in self.__dict__:
            self._equip()

    def _equip(self) -> None:
        """Make all that lives as long as this object and is no part of its state."""
        self._parts: list[Part] = []
        self._methods: list[Method] = []
        self._assigned: tuple[list[Part], list[Moment], list[int]] = [], [], []
        self._guard = GradientGuard()
        self._eager = EagerStep()
        self._compiled = CompiledStep()
        self._writes = WriteTracker()
        self._rates: dict[int, Tensor] = {}
        self._rounded = False
        self._warned_of_statistics = False

    def _parameters(self) -> list[Part]:
        """Return all parameters, in order."""
        if not still_hold(self._parts, self.param_groups, self.state):
            self._parts = list(parts_in(self.param_groups, self.state))
        return self._parts

    def _with_estimators(self, parameters: Iterable[Part]) -> Iterator[tuple[Part, Estimator]]:
        """Yield each parameter with its method at the current step."""
        for parameter in parameters:
            estimator = at_step(self.param_groups[parameter.group]["estimator"], self._steps)
            yield parameter, parameter.specialise(estimator)

    @disable_dynamo
    def _check_model(self, model: nn.Module | None) -> None:
        """Make FSDP2 drop gathered weights, which are other tensors; raise ValueError if a model has none of these."""
        if model is not None:
            forget_gathered(model)
            check_model(model, self._parameters())

    @disable_dynamo
    def _warn_of_old_statistics(self, model: nn.Module | None) -> None:
        """Warn once that running statistics of BatchNorm are not those of the rounded weights."""
        if model is None or self._rounded or self._warned_of_statistics or not self.steps:
            return
        if norms_in_use(model) and any(group["estimator"].binary for group in self.param_groups):
            self._warned_of_statistics = True
            warn_user(
                "binarized(model) leaves BatchNorm its running statistics: they remember networks of earlier batches, "
                "whose signs have flipped since, and accuracy may look much lower than it is. Re-estimate them from "
                "batches as in training: binarized(model, statistics_from=loader). To go without, and without this "
                "warning, give no model: binarized()"
            )

    @disable_dynamo
    @torch.no_grad()
    def _kept_weights(self) -> list[tuple[Part, Tensor]]:
        """Return all weights with copies of them, before others are written for a while."""
        self.check_gradients()
        parameters = self._parameters()
        if not self._rounded:
            warn_of_lost(self._with_estimators(self._writes.by_others(parameters)))
        return [(each, each.weight.clone()) for each in parameters]

    @disable_dynamo
    @torch.no_grad()
    def _round_weights(self) -> None:
        self._rounded = True
        for parameter, estimator in self._with_estimators(self._parameters()):
            parameter.weight.copy_(parameter.export(estimator))

    @disable_dynamo
    @torch.no_grad()
    def _put_back(self, kept: list[tuple[Part, Tensor]], model: nn.Module | None, *, rounded: bool) -> None:
        self._rounded = rounded
        for parameter, weight in kept:
            parameter.weight.copy_(weight)
        self._writes.accept(parameter for parameter, _ in kept)
        forget_gathered(model)

    @torch.no_grad()
    def _write_weights(self, parameters: Iterable[Part], *, unless_close: bool = False) -> None:
        for parameter, estimator in self._with_estimators(parameters):
            parameter.write_weight(estimator, unless_close=unless_close)

    def _inputs(self, parameters: list[Part]) -> StepInputs:
        """Return what a step is made from."""
        given = [(each, grad) for each in parameters if (grad := each.parameter.grad) is not None]
        moving = [each for each, _ in given]
        grads = [dense_grad(each, grad) if each.sharded or grad.is_sparse else grad for each, grad in given]
        norms = self._guard.inspect(grads, [each.slot for each in moving], [each.name for each in parameters])
        found = [(group["estimator"], group["averaging"]) for group in self.param_groups]
        if [(method.estimator, method.averaging) for method in self._methods] != found:
            self._methods, self._assigned = [Method(*each) for each in found], ([], [], [])
        known, moments, places = self._assigned
        same = len(known) == len(moving) and all(map(is_, known, moving))
        if not (same and all(method.is_constant for method in self._methods)):
            evaluate = self._compiled.two_moments if self._compile else two_moments
            of_groups = moments_at(self._methods, self._steps, evaluate)
            moments, places = assign_moments(moving, self._methods, of_groups)
            self._assigned = moving, moments, places
        return StepInputs(moving, grads, norms, self._methods, moments, places)

    def _base_group(self, group: dict[str, Any]) -> dict[str, Any]:
        return base_group(group, self._latents_of(group))

    def _latents_of(self, group: dict[str, Any]) -> list[Tensor]:
        return [self.state[weight]["latent"] for weight in group["params"]]

    def _adopt_settings(self, group: dict[str, Any], of_base: dict[str, Any]) -> None:
        adopt(group, of_base, counts_on_gpu=isinstance(self._steps, Tensor) and self._steps.is_cuda)

    def _mirror_settings(self) -> None:
        mirror(self.param_groups, self.base.param_groups, compiled=self._compile)

    def _keep_rates(self) -> None:
        if isinstance(self._steps, Tensor):
            keep_rates(self.param_groups, self._rates, self._steps.device)

    @property
    def _kind_of_base(self) -> str:
        return type(self.base).__name__
