"""Which parameters of a model become binary: a total and disjoint partition."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from torch import nn
from torch.nn.modules.conv import _ConvNd

from adaste.estimators import FullPrecision
from adaste.patterns import matches, no_match

Predicate = Callable[[str, nn.Parameter], bool]
Selector = str | Predicate | Iterable[str | Predicate]


@dataclass(frozen=True)
class Partition:
    """The parameters of a model by name: `binary`, and the `rest`.

    Iterating gives the parameter groups an optimizer takes: the binary weights with the optimizer's estimator, and
    the rest, as far as it is trained, in full precision.
    """

    binary: dict[str, nn.Parameter]
    rest: dict[str, nn.Parameter]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        yield {"params": list(self.binary.items())}
        trained = [(name, parameter) for name, parameter in self.rest.items() if parameter.requires_grad]
        if trained:
            yield {"params": trained, "estimator": FullPrecision(), "averaging": 0.0}


def binary_weights(model: nn.Module, include: Selector | None = None, exclude: Selector | None = None) -> Partition:
    """Divide the parameters of `model` into binary weights and the rest.

    By default the weights (not the biases) of all linear, convolution and attention layers are binary, as far as they
    require a gradient. `include` names others instead, `exclude` takes some away; each is a pattern, a predicate of
    (name, parameter), or several of these. A pattern (of fnmatch) is one of a parameter's name (`"layer?.*.weight"`)
    or of a module's, which stands for everything in it (`"fc"`). A pattern or predicate that matches nothing is an
    error, and so is a model without binary weights.
    """
    names = _names(model)
    trained = [group for group in names if group[0][1].requires_grad]
    chosen = _default(model) if include is None else _matching("include", include, names)
    dropped = set() if exclude is None else _matching("exclude", exclude, names)
    binary = {group[0][0]: group[0][1] for group in trained if group[0][1] in chosen and group[0][1] not in dropped}
    if not binary:
        raise ValueError(
            f"no binary weights found among the {len(names)} parameters of {type(model).__name__} "
            f"(include={include!r}, exclude={exclude!r}); linear, convolution and attention weights that require a "
            "gradient are taken by default"
        )
    rest = {group[0][0]: group[0][1] for group in names if group[0][0] not in binary}
    return Partition(binary, rest)


def _names(model: nn.Module) -> list[list[tuple[str, nn.Parameter]]]:
    """One entry per parameter, with all its names: a shared parameter has several."""
    groups: dict[nn.Parameter, list[tuple[str, nn.Parameter]]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(parameter, []).append((name, parameter))
    return list(groups.values())


def _default(model: nn.Module) -> set[nn.Parameter]:
    found: set[nn.Parameter] = set()
    embeddings = {module.weight for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)}
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Bilinear | _ConvNd):
            found.add(cast("nn.Parameter", module.weight))
        elif isinstance(module, nn.MultiheadAttention):
            own = (module.in_proj_weight, module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
            found.update(weight for weight in own if weight is not None)
    # A weight shared between an embedding and an output layer (a language model's head) stays real.
    return found - embeddings


def _matching(role: str, selector: Selector, names: list[list[tuple[str, nn.Parameter]]]) -> set[nn.Parameter]:
    tests = [selector] if isinstance(selector, str) or callable(selector) else list(selector)
    everything = [pair for group in names for pair in group]
    chosen: set[nn.Parameter] = set()
    for test in tests:
        found = {parameter for name, parameter in everything if _matches(test, name, parameter)}
        if not found:
            raise no_match(role, test, [name for name, _ in everything])
        chosen |= found
    return chosen


def _matches(test: str | Predicate, name: str, parameter: nn.Parameter) -> bool:
    return matches(test, name) if isinstance(test, str) else bool(test(name, parameter))
