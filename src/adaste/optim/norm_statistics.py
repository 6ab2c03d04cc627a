"""Running statistics of BatchNorm that fit weights of +-1: means over batches, for the weights as they are now.

The running statistics of training are an average over past batches, m <- (1 - a) m + a m_t. Between these the signs of
weights flip, and a weight that flips changes by 2: the average is of networks that are no more. A test then normalises
with statistics that no network had. The means over T batches of the network that is tested do not have this fault:

    m = (1/T) sum_t m_t        for the mean and the unbiased variance of every channel.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain, islice
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from adaste._util.checks import require_count

MOST_BATCHES = 50
"""Batches taken of an iterable: more hardly change the means, and a whole epoch would take its time."""


@contextmanager
def reestimate_norms(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    forward: Callable[[Any], object] | None = None,
    most: int = MOST_BATCHES,
) -> Iterator[None]:
    """Return a context in which every BatchNorm of `model` has the means of its statistics over `batches`.

        with optimizer.binarized(), reestimate_norms(model, loader): evaluate(model)

    `optimizer.binarized(model, statistics_from=loader)` is the same. For the mean and the unbiased variance of every
    channel, over T batches:

        m = (1/T) sum_t m_t

    Afterwards buffers are put back to the last bit, also after an error. Blocks may be nested.

    Only the norms are in training mode meanwhile, so that the statistics are those of the network that is tested
    (without dropout, say). Norms that are in evaluation mode in a model that is in training mode are frozen and left
    alone, and so are those without running statistics. Torch's random numbers go on as if no batch had been drawn, and
    code that torch.compile has made of the model is not used. All processes (DDP, FSDP2) must enter, with equally many
    batches; each draws its own, and the means are those over all.

    Args:
        model: The network; under DDP the wrapped or the inner one.
        batches: Batches as the network is trained with, augmented if they are: tensors, or what a DataLoader yields.
            The first part of a sequence is the input, a mapping holds keyword arguments; they are moved to the model's
            device.
        forward: Called with a batch instead, where the model is called in another way.
        most: The number of batches that are drawn at most, 50 by default.

    Yields:
        Nothing; use it in a `with` statement.

    Raises:
        ValueError: If there is no batch, if no norm was reached, if the inputs of a batch are not known, or if
            `most` is no positive whole number.
    """
    require_count("most", most, least=1)
    means = BatchMeans(norms_in_use(model))
    with means.put_back():
        if means.norms:
            _estimate(model, means, batches, forward or _caller(model), most)
        yield


def norms_in_use(model: nn.Module) -> list[_BatchNorm]:
    """Return every BatchNorm that training gives running statistics, which tests normalise with; no frozen ones."""
    norms = norms_with_statistics(model)
    return [norm for norm in norms if norm.training] if model.training else norms


def norms_with_statistics(model: nn.Module) -> list[_BatchNorm]:
    """Return every BatchNorm that has running statistics."""
    return [each for each in model.modules() if isinstance(each, _BatchNorm) and each.running_mean is not None]


class BatchMeans:
    """Means of the statistics of batches, gathered from norms in training mode and written into their buffers."""

    def __init__(self, norms: Sequence[_BatchNorm]) -> None:
        self.norms = norms
        self._sums: list[Tensor] = []
        self._counts: list[int] = []

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Return a context after which all buffers are as before, to the last bit."""
        kept = [{name: buffer.clone() for name, buffer in norm.named_buffers()} for norm in self.norms]
        try:
            yield
        finally:
            with torch.no_grad():
                for norm, buffers in zip(self.norms, kept, strict=True):
                    for name, buffer in buffers.items():
                        norm.get_buffer(name).copy_(buffer)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Return a context in which running statistics are those of the last batch; at its end they are the means of
        all added.

        A norm of which nothing was added keeps its own.
        """
        momenta = [norm.momentum for norm in self.norms]
        # In half precision a sum of many would lose most of its digits.
        self._sums = [torch.zeros_like(each, dtype=at_least_single(each)) for each in self._statistics()]
        self._counts = [0] * len(self._sums)
        try:
            for norm in self.norms:
                norm.momentum = 1.0
            yield
        finally:
            for norm, momentum in zip(self.norms, momenta, strict=True):
                norm.momentum = momentum
        for statistic, total, count in zip(self._statistics(), self._sums, self._counts, strict=True):
            if count:
                statistic.copy_(total / count)

    def add(self, place: int | None = None) -> None:
        """Add the statistics of the last batch: those of the norm at `place`, or of all."""
        some = slice(None) if place is None else slice(2 * place, 2 * place + 2)
        torch._foreach_add_(self._sums[some], self._statistics()[some])
        self._counts[some] = [count + 1 for count in self._counts[some]]

    @property
    def found_none(self) -> bool:
        """Whether nothing was added."""
        return not any(self._counts)

    def average(self) -> None:
        """Give all processes the mean of their statistics."""
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            for statistic in self._statistics():
                total = statistic.to(at_least_single(statistic))  # Gloo may not add in half precision
                dist.all_reduce(total)
                statistic.copy_(total / dist.get_world_size())

    def _statistics(self) -> list[Tensor]:
        """Return mean and variance of each norm, in turns."""
        return [norm.get_buffer(name) for norm in self.norms for name in ("running_mean", "running_var")]


def at_least_single(tensor: Tensor) -> torch.dtype:
    """Return the type of a tensor, or float32 where that is more precise."""
    return torch.promote_types(tensor.dtype, torch.float32)


@torch.no_grad()
def _estimate(
    model: nn.Module, means: BatchMeans, batches: Iterable[Any], forward: Callable[[Any], object], most: int
) -> None:
    drawn = 0
    with ExitStack() as stack:
        stack.enter_context(_same_random_numbers(model))
        stack.enter_context(_uncompiled())
        stack.enter_context(_only_in_training(model, means.norms))
        stack.enter_context(means.gathering())
        for place, norm in enumerate(means.norms):
            # After every call, for a norm may be called several times in a pass, or not at all.
            hook = norm.register_forward_hook(lambda *_, place=place: means.add(place))
            stack.callback(hook.remove)
        for batch in islice(batches, most):
            forward(batch)
            drawn += 1
        if not drawn:
            raise ValueError(
                "statistics of BatchNorm need at least one batch, and there was none: give a list or a DataLoader (an "
                "iterator is used up after its first use)"
            )
        if means.found_none:
            raise ValueError(
                "no BatchNorm of the model was called with the batches: `forward` must call the model whose norms are "
                "re-estimated"
            )
    means.average()


@contextmanager
def _only_in_training(model: nn.Module, norms: Iterable[nn.Module]) -> Iterator[None]:
    """Return a context with `norms` in training mode and all else in evaluation mode; afterwards each is in its own."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        # Not by train(): that would take along what lies inside, and a model may have one of its own.
        for module, _ in modes:
            module.training = False
        for norm in norms:
            norm.training = True
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def _same_random_numbers(model: nn.Module) -> Iterator[None]:
    """Return a context after which torch's generators on the CPU and on the model's devices go on where they were."""
    devices = {tensor.device for tensor in chain(model.parameters(), model.buffers())}
    with torch.random.fork_rng([device for device in devices if device.type == "cuda"]):
        yield


def _uncompiled() -> AbstractContextManager[Any]:
    """Return a context without torch.compile, which would compile anew for every unusual mixture of modes."""
    # No model is compiled before that module is imported; importing it here would take seconds.
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _caller(model: nn.Module) -> Callable[[Any], object]:
    """Return a function that calls a model with a batch of a DataLoader."""
    device = next((tensor.device for tensor in chain(model.parameters(), model.buffers())), torch.device("cpu"))

    def call(batch: Any) -> object:
        inputs = batch[0] if isinstance(batch, tuple | list) and batch else batch
        if isinstance(inputs, Tensor):
            return model(inputs.to(device))
        if isinstance(inputs, Mapping):
            return model(
                **{name: part.to(device) if isinstance(part, Tensor) else part for name, part in inputs.items()}
            )
        raise ValueError(
            f"batches may be tensors, sequences that begin with one, or mappings, got {type(batch).__name__}: pass "
            "forward=, a function of a batch that calls the model with it"
        )

    return call
