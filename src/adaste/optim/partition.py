"""Divide the parameters of a model into binary weights and the rest: a total and disjoint partition."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from adaste._util.checks import list_names, matches, no_match
from adaste._util.warnings import warn_user
from adaste.estimators import FullPrecision
from adaste.estimators.base import FIRST, OutputAxis

Predicate = Callable[[str, nn.Parameter], bool]
Selector = str | Predicate | Iterable[str | Predicate]
Named = list[list[tuple[str, nn.Parameter]]]
"""One entry per parameter, with all its names: a shared parameter has several."""


@dataclass(frozen=True)
class Partition:
    """The parameters of a model by name.

    Iterating yields the parameter groups an optimizer takes: the binary weights with the optimizer's estimator, and the
    rest, as far as it is trained, in full precision. If you make groups of `binary` yourself, pass on their
    `output_axes`.

    Args:
        binary: The binary weights.
        rest: All other parameters.
        output_axes: The position of the output channels, for binary weights where it is not dimension 0.
    """

    binary: dict[str, nn.Parameter]
    rest: dict[str, nn.Parameter]
    output_axes: Mapping[str, OutputAxis] = field(default_factory=dict)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        binary: dict[str, Any] = {"params": list(self.binary.items())}
        if self.output_axes:
            binary["output_axes"] = tuple(self.output_axes.get(name, FIRST) for name in self.binary)
        yield binary
        trained = [(name, parameter) for name, parameter in self.rest.items() if parameter.requires_grad]
        if trained:
            yield {"params": trained, "estimator": FullPrecision(), "averaging": 0.0}


class Matrix(NamedTuple):
    """The facts about a weight matrix (or kernel) of a model."""

    axis: OutputAxis = FIRST
    """Where it has its output channels."""
    real: str = ""
    """Why it is not binary by default; empty where it is."""
    expected: bool = False
    """Whether nobody would expect it to be binary."""


def binary_weights(model: nn.Module, include: Selector | None = None, exclude: Selector | None = None) -> Partition:
    """Return the parameters of a model, divided into binary weights and the rest.

    By default the weights (not the biases) of all linear, convolution and attention layers are binary, as far as they
    require a gradient; transformers' Conv1D is a linear layer. It warns of weight matrices that stay real though nobody
    has named them, as those of an LSTM.

    Each selector is a pattern, a predicate of (name, parameter), or several of these. A pattern (of fnmatch) is one of
    a parameter's name (`"layer?.*.weight"`) or of a module's, which stands for everything in it (`"fc"`).

    Args:
        model: The network.
        include: The binary weights, instead of the default.
        exclude: Weights that stay real.

    Returns:
        A `Partition`, which `LatentOptimizer` takes.

    Raises:
        ValueError: If a pattern or predicate matches nothing, or if there are no binary weights.
        TypeError: If a selector is neither a pattern nor a predicate.
    """
    names = _names(model)
    matrices = weight_matrices(model)
    usual = {parameter for parameter, matrix in matrices.items() if not matrix.real}
    chosen = usual if include is None else _matching("include", include, names)
    dropped = set() if exclude is None else _matching("exclude", exclude, names)
    trained = {group[0][1]: group[0][0] for group in names if group[0][1].requires_grad}
    wanted = chosen - dropped
    binary = {name: parameter for parameter, name in trained.items() if parameter in wanted}
    if not binary:
        raise ValueError(
            f"no binary weights found among the {len(names)} parameters of {type(model).__name__} "
            f"(include={include!r}, exclude={exclude!r}); linear, convolution and attention weights that require a "
            f"gradient are taken by default{_left_real(trained, matrices, usual)}"
        )
    if include is None:
        left = _left_real(trained, matrices, usual | dropped)
        if left:
            warn_user(
                f"binary_weights takes linear, convolution and attention weights by default{left}. To make them binary "
                "name all binary weights in include=, to keep them real without this warning name them in exclude="
            )
    rest = {group[0][0]: group[0][1] for group in names if group[0][0] not in binary}
    axes = {name: matrices[parameter].axis for name, parameter in binary.items() if parameter in matrices}
    return Partition(binary, rest, {name: axis for name, axis in axes.items() if axis != FIRST})


def weight_matrices(model: nn.Module) -> dict[nn.Parameter, Matrix]:
    """Return the facts about every weight matrix of a model: parameters that a layer multiplies its input by."""
    found: dict[nn.Parameter, Matrix] = {}
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False))
        for name, matrix in _matrices_of(module, own).items():
            found.setdefault(own[name], matrix)  # of a shared one what its first layer knows
        if is_parametrized(module, "weight"):
            for parameter in module.get_submodule("parametrizations.weight").parameters():
                if _is_matrix(parameter):
                    found.setdefault(parameter, Matrix(_output_axis(module), _COMPUTED))
    # A weight shared between an embedding and an output layer (a language model's head) stays real.
    for module in model.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            for parameter in module.parameters(recurse=False):
                found[parameter] = Matrix(FIRST, "an embedding, or shared with one", expected=True)
    return found


_COMPUTED = "a layer's weight is computed from it (weight_norm, spectral_norm, pruning)"
_ATTENTION = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
_NO_PRODUCTS = ("bias", "embed", "pos", "token")
"""Beginnings of words in the names of what is added to values: tables of biases, positions, tokens."""


def _matrices_of(module: nn.Module, own: Mapping[str, nn.Parameter]) -> dict[str, Matrix]:
    """Return the facts about a module's own parameters by name, without vectors and parameters that are only added."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag | nn.LayerNorm | nn.RMSNorm):
        return {}
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        why = "a recurrent layer, whose state it multiplies again at every step"
        return {name: Matrix(real=why) for name, parameter in own.items() if parameter.dim() > 1}
    taken: dict[str, Matrix] = {}
    if isinstance(module, nn.MultiheadAttention):
        taken = {name: Matrix() for name in _ATTENTION if name in own}
    elif isinstance(module, nn.Linear | nn.Bilinear | _ConvNd) or _is_conv1d(module):
        axis = _output_axis(module)
        if "weight" in own:
            taken = {"weight": Matrix(axis)}
        else:
            taken = {name: Matrix(axis, _COMPUTED) for name, each in own.items() if _is_matrix(each)}
    why = f"{type(module).__name__}'s own parameter, the weight of no layer that is known"
    unknown = Matrix(real=_COMPUTED if isinstance(module, ParametrizationList) else why)
    return taken | {
        name: unknown for name, each in own.items() if name not in taken and _is_matrix(each) and not _is_added(name)
    }


def _output_axis(module: nn.Module) -> OutputAxis:
    if isinstance(module, _ConvTransposeNd):
        return OutputAxis(dim=1, groups=module.groups)
    return OutputAxis(dim=1) if _is_conv1d(module) else FIRST


def _is_conv1d(module: nn.Module) -> bool:
    """Return whether a module is the linear layer of GPT-2, x @ weight + bias, of transformers or copied from there.

    All of them call it so and call the number of its outputs nf. torch's convolution is called Conv1d.
    """
    weight = getattr(module, "weight", None)
    return (
        any(kind.__name__ == "Conv1D" for kind in type(module).__mro__)
        and isinstance(weight, nn.Parameter)
        and weight.dim() == 2
        and getattr(module, "nf", None) == weight.shape[1]
    )


def _is_matrix(parameter: nn.Parameter) -> bool:
    """Return whether a parameter looks like a factor of inputs; a leading 1 is a batch that it is added to."""
    return parameter.dim() > 1 and parameter.shape[0] > 1 and sum(side > 1 for side in parameter.shape) > 1


def _is_added(name: str) -> bool:
    return any(word.startswith(_NO_PRODUCTS) for word in name.split("_"))


def _left_real(
    trained: Mapping[nn.Parameter, str], matrices: Mapping[nn.Parameter, Matrix], known: set[nn.Parameter]
) -> str:
    """Return the end of a message that names the weight matrices that stay real though nobody has said so, and why."""
    reasons: dict[str, list[str]] = {}
    for parameter, matrix in matrices.items():
        if parameter in trained and parameter not in known and not matrix.expected:
            reasons.setdefault(matrix.real, []).append(trained[parameter])
    told = "; ".join(f"{list_names(names)} ({reason})" for reason, names in reasons.items())
    return f"; these weight matrices stay real: {told}" if told else ""


def _names(model: nn.Module) -> Named:
    groups: dict[nn.Parameter, list[tuple[str, nn.Parameter]]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        groups.setdefault(parameter, []).append((name, parameter))
    return list(groups.values())


def _matching(role: str, selector: Selector, names: Named) -> set[nn.Parameter]:
    tests: list[Any] = [selector] if isinstance(selector, str) or callable(selector) else list(selector)
    everything = [pair for group in names for pair in group]
    chosen: set[nn.Parameter] = set()
    for test in tests:
        if isinstance(test, nn.Module) or not (isinstance(test, str) or callable(test)):
            raise TypeError(
                f"{role} takes patterns of names such as 'fc' or '*.weight', and functions of (name, parameter), "
                f"got {test!r}"
            )
        found = {parameter for name, parameter in everything if _matches(test, name, parameter)}
        if not found:
            raise no_match(role, test, [name for name, _ in everything])
        chosen |= found
    return chosen


def _matches(test: str | Predicate, name: str, parameter: nn.Parameter) -> bool:
    return matches(test, name) if isinstance(test, str) else bool(test(name, parameter))
