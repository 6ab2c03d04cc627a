"""From a torch model to nodes: what it computes for an image, operation by operation.

torch.export runs the model once and writes down torch's own operations, without side effects. Those that depend on the
image become nodes, by the table in `calls.py`; all others, whatever they are, are computed here and now.
"""

import copy
import itertools
import operator
import re
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves, tree_map

from adaste.packed.aten import ADVICE, CALLS, SUPPORTED
from adaste.packed.graph import BATCH, INPUT, Arguments, Builder, Constant, Misfit, Value
from adaste.packed.nodes import Node

_TORCH = Path(torch.__file__).parent


@dataclass(frozen=True)
class Traced:
    """A model as nodes, all in float32, and its logits for the example.

    Args:
        input_shape: Channels, height and width of its images.
        nodes: The operations in the order of execution.
        output: The name of the logits.
        weights: The names of the parameters that are the weights of layers, by the outputs of these.
        logits: The model's logits for the example.
    """

    input_shape: tuple[int, int, int]
    nodes: tuple[Node, ...]
    output: str
    weights: dict[str, str]
    logits: Tensor


def trace(model: nn.Module, example: Tensor) -> Traced:
    """Return the trace of a model in evaluation mode, for images like `example` (n, channels, height, width)."""
    _check_example(example)
    with torch.no_grad():
        network = _Logits(copy.deepcopy(model)).cpu().float().eval()
        images = example.detach().cpu().float()
        logits = network(images)
        _check_logits(logits, model)
        program = _export(network, images[:1].expand(BATCH, -1, -1, -1).contiguous())
        channels, height, width = example.shape[1:]
        builder = Builder((channels, height, width))
        output = _Translator(program, builder).output()
    return Traced((channels, height, width), tuple(builder.nodes), output, builder.weights, logits)


def _check_example(example: Tensor) -> None:
    if not isinstance(example, Tensor) or example.dim() != 4 or not len(example):
        found = tuple(example.shape) if isinstance(example, Tensor) else type(example).__name__
        raise ValueError(f"example must be a tensor of images (n, channels, height, width), got {found}")
    if not example.isfinite().all():
        raise ValueError("example must hold finite numbers, got NaN or infinite ones")


def _check_logits(logits: Tensor, model: nn.Module) -> None:
    """Raise ValueError unless all logits are finite: the packed network is compared with them."""
    bad = int((~logits.isfinite()).sum())
    if not bad:
        return
    tensors = itertools.chain(model.named_parameters(), model.named_buffers())
    names = [name for name, tensor in tensors if not tensor.isfinite().all()]
    cause = (
        f"NaN or infinite numbers are in {', '.join(names)}"
        if names
        else "its parameters and buffers are finite: a number becomes too large or undefined on the way"
    )
    raise ValueError(
        f"the model's own outputs are not finite: {bad} of {logits.numel()} for the example, in evaluation mode and "
        f"float32; {cause}"
    )


class _Logits(nn.Module):
    """A model whose output may have the logits inside, as those of transformers do."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        output = self.model(images)
        found = output if isinstance(output, Tensor) else getattr(output, "logits", None)
        if not isinstance(found, Tensor):
            raise ValueError(f"the model must give a tensor, or something with `logits`, got {type(output).__name__}")
        return found


def _export(network: nn.Module, images: Tensor) -> ExportedProgram:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's, about itself
            program = torch.export.export(network, (images,), strict=False)
            # With an empty table it only removes side effects: what is written in place becomes a value of its own.
            return program.run_decompositions({}) if _writes(program) else program
    except Exception as error:  # whatever the code of a model does
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        line = _line("".join(traceback.format_tb(error.__traceback__)))
        raise ValueError(f"torch.export could not follow the model{line}: {reason}") from error


def _writes(program: ExportedProgram) -> bool:
    """Return whether an operation changes a tensor instead of making one."""
    schemas = [getattr(node.target, "_schema", None) for node in program.graph.nodes]
    return any(schema is not None and schema.is_mutable for schema in schemas)


@dataclass(frozen=True)
class _Refusal:
    """An operation that cannot be packed: where it is, what is wrong with it (with it and others), what to do."""

    place: str
    one: str
    many: str
    advice: str


class _Translator:
    """Translates the operations of an exported model; one error names all that cannot be packed."""

    def __init__(self, program: ExportedProgram, builder: Builder) -> None:
        self._program, self._builder = program, builder
        self._found: dict[fx.Node, Any] = {}
        self._refused: list[_Refusal] = []
        signature = program.graph_signature
        self._names = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }

    def output(self) -> str:
        """Build all nodes, and return the name of the output."""
        last = next(node for node in self._program.graph.nodes if node.op == "output")
        needed = _find_needed(last)
        for node in self._program.graph.nodes:
            if node in needed and node is not last:
                self._found[node] = self._input(node) if node.op == "placeholder" else self._call(node)
        if self._refused:
            raise ValueError(_describe(self._refused))
        (logits,) = self._lookup(last.args[0])
        if not isinstance(logits, Value):
            raise ValueError("the output of the model does not depend on the image")
        return self._builder.use(logits)

    def _input(self, node: fx.Node) -> Constant | Value:
        """Return an input of the program: the images, a parameter, a buffer or another constant."""
        name = self._names.get(node.name)
        if name is None:
            return Value(INPUT, self._builder.shapes[INPUT])
        kept = self._program.state_dict if name in self._program.state_dict else self._program.constants
        return Constant(kept[name].detach(), _strip_wrapper(name))

    def _call(self, node: fx.Node) -> Any:
        """Compute an operation now if it does not depend on the image, else build its nodes."""
        if node.op == "get_attr":  # the body of what follows, as of an autocast, which is no operation of torch's own
            return None
        arguments, named = self._lookup(node.args), self._lookup(dict(node.kwargs))
        if node.target is operator.getitem:
            return self._part(node, *arguments)
        if not _depends_on_image((arguments, named)):
            result = node.target(*_unwrap(arguments), **_unwrap(named))  # type: ignore[operator]
            return tree_map(lambda made: Constant(made, f"what {_layer(node)} computes"), result)
        if node.target not in CALLS:
            what = f"{node.target}, which has no place in the file"
            return self._refuse(node, f" computes {what}", f" compute {what}", ADVICE.get(node.target, SUPPORTED))
        if any(isinstance(leaf, Misfit) for leaf in tree_leaves((arguments, named))):
            return self._stand_in(node)  # that there is one was told before
        try:
            return CALLS[node.target](self._builder, _by_name(node, arguments, named), _shape(node))
        except ValueError as error:
            return self._refuse(node, f": {error}", f": {error}")

    def _part(self, node: fx.Node, results: Sequence[Any] | Misfit, place: int) -> Any:
        """Return one of the results of an operation; None stands for what no node computes, as indices of maxima."""
        if isinstance(results, Misfit):
            return results
        if results[place] is None:
            what = f"result {place} of {node.args[0]}, which has no place in the file"
            return self._refuse(node, f" uses {what}", f" use {what}")
        return results[place]

    def _refuse(self, node: fx.Node, one: str, many: str, advice: str = SUPPORTED) -> Any:
        """Remember that an operation cannot be packed, and return what stands for its results."""
        self._refused.append(_Refusal(_place(node), one, many, advice))
        return self._stand_in(node)

    def _stand_in(self, node: fx.Node) -> Any:
        made = node.meta.get("val")
        if made is None:
            return Misfit()
        return tree_map(
            lambda leaf: self._builder.stand_in(tuple(leaf.shape)) if isinstance(leaf, Tensor) else leaf, made
        )

    def _lookup(self, arguments: Any) -> Any:
        return fx.map_arg(arguments, lambda node: self._found[node])


def _describe(refused: Sequence[_Refusal]) -> str:
    """Return all that cannot be packed as text, the same at several places in one line."""
    lines: dict[str, list[_Refusal]] = {}
    for refusal in refused:
        lines.setdefault(refusal.many, []).append(refusal)
    said = []
    for many, alike in lines.items():
        places = list(dict.fromkeys(refusal.place for refusal in alike))
        said.append(places[0] + alike[0].one if len(places) == 1 else ", ".join(places) + many)
    advice = ". ".join(dict.fromkeys(refusal.advice for refusal in refused))
    return (
        f"{said[0]}. {advice}"
        if len(said) == 1
        else "\n  ".join(["the model cannot be packed:", *said]) + f"\n{advice}"
    )


def _find_needed(last: fx.Node) -> set[fx.Node]:
    """Return all operations that the last one depends on: no assertions, no unused outputs."""
    needed, waiting = set[fx.Node](), [last]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return needed


def _by_name(node: fx.Node, arguments: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
    """Return arguments by the names of the operation's schema, with defaults for those that are not given."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    found = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    return {**found, **dict(zip((argument.name for argument in schema), arguments, strict=False)), **named}


def _depends_on_image(arguments: Any) -> bool:
    return any(isinstance(leaf, Value | Misfit) for leaf in tree_leaves(arguments))


def _unwrap(arguments: Any) -> Any:
    return tree_map(lambda leaf: leaf.tensor if isinstance(leaf, Constant) else leaf, arguments)


def _shape(node: fx.Node) -> tuple[int, ...]:
    """Return the shape of the result, or of the first of several."""
    return tuple(tree_leaves(node.meta["val"])[0].shape)


def _place(node: fx.Node) -> str:
    """Return where an operation is in the model, and where in its code."""
    return _layer(node) + _line(node.meta.get("stack_trace") or "")


def _line(stack: str) -> str:
    """Return the innermost `forward` of a stack that is the user's, " (file.py, line 3)"; empty if none is."""
    found = re.findall(r'File "(.+)", line (\d+), in forward', stack)
    own = [
        (Path(file).name, line) for file, line in found if file != __file__ and not Path(file).is_relative_to(_TORCH)
    ]
    return " ({}, line {})".format(*own[-1]) if own else ""


def _layer(node: fx.Node) -> str:
    """Return the layer of an operation, in words."""
    path, kind = list(node.meta["nn_module_stack"].values())[-1]
    name = kind if isinstance(kind, str) else kind.__name__
    own = _strip_wrapper(path)
    return f"the {name.rpartition('.')[2]} at {own!r}" if own else f"the {name.rpartition('.')[2]} itself"


def _strip_wrapper(name: str) -> str:
    """Return a name inside the model, which `_Logits` wraps."""
    return name.removeprefix("model").removeprefix(".")
