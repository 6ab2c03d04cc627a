"""From a torch model to nodes: what it computes for an image, operation by operation.

torch.export runs the model once and writes down torch's own operations, without side effects. Those that depend on the
image become nodes, by the table in `calls.py`; all others, whatever they are, are computed here and now.
"""

import copy
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

from adaste.packed.building import BATCH, Arguments, Builder, Constant, Value
from adaste.packed.calls import ADVICE, CALLS, SUPPORTED
from adaste.packed.graph import INPUT
from adaste.packed.node import Node

_TORCH = Path(torch.__file__).parent


@dataclass(frozen=True)
class Traced:
    """A model as nodes, all in float32, and its logits for the example.

    weights  the names of the parameters that are the weights of layers, by the outputs of these.
    """

    input_shape: tuple[int, int, int]
    nodes: tuple[Node, ...]
    output: str
    weights: dict[str, str]
    logits: Tensor


def trace(model: nn.Module, example: Tensor) -> Traced:
    """What `model` computes in evaluation mode for images like `example`, (n, channels, height, width)."""
    _check_example(example)
    with torch.no_grad():
        network = _Logits(copy.deepcopy(model)).cpu().float().eval()
        images = example.detach().cpu().float()
        logits = network(images)
        program = _exported(network, images[:1].expand(BATCH, -1, -1, -1).contiguous())
        channels, height, width = example.shape[1:]
        builder = Builder((channels, height, width))
        output = _Walk(program, builder).output()
    return Traced((channels, height, width), tuple(builder.nodes), output, builder.weights, logits)


def _check_example(example: Tensor) -> None:
    if not isinstance(example, Tensor) or example.dim() != 4 or not len(example):
        found = tuple(example.shape) if isinstance(example, Tensor) else type(example).__name__
        raise ValueError(f"example must be a tensor of images (n, channels, height, width), got {found}")
    if not example.isfinite().all():
        raise ValueError("example must hold finite numbers, got NaN or infinite ones")


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


def _exported(network: nn.Module, images: Tensor) -> ExportedProgram:
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
    """Whether an operation changes a tensor instead of making one."""
    schemas = [getattr(node.target, "_schema", None) for node in program.graph.nodes]
    return any(schema is not None and schema.is_mutable for schema in schemas)


class _Walk:
    """Through the operations of an exported model."""

    def __init__(self, program: ExportedProgram, builder: Builder) -> None:
        self._program, self._builder = program, builder
        self._found: dict[fx.Node, Any] = {}
        signature = program.graph_signature
        self._names = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }

    def output(self) -> str:
        """Build all nodes; the name of the output."""
        last = next(node for node in self._program.graph.nodes if node.op == "output")
        needed = _needed(last)
        for node in self._program.graph.nodes:
            if node in needed and node is not last:
                self._found[node] = self._input(node) if node.op == "placeholder" else self._call(node)
        (logits,) = self._known(last.args[0])
        if not isinstance(logits, Value):
            raise ValueError("the output of the model does not depend on the image")
        return self._builder.use(logits)

    def _input(self, node: fx.Node) -> Constant | Value:
        """An input of the program: the images, a parameter, a buffer or another constant."""
        name = self._names.get(node.name)
        if name is None:
            return Value(INPUT, self._builder.shapes[INPUT])
        kept = self._program.state_dict if name in self._program.state_dict else self._program.constants
        return Constant(kept[name].detach(), _own(name))

    def _call(self, node: fx.Node) -> Any:
        """An operation: computed now where that is possible, else built."""
        if node.op == "get_attr":  # the body of what follows, as of an autocast, which is no operation of torch's own
            return None
        arguments, named = self._known(node.args), self._known(dict(node.kwargs))
        if node.target is operator.getitem:
            return self._part(node, *arguments)
        if not _depends_on_image((arguments, named)):
            result = node.target(*_bare(arguments), **_bare(named))  # type: ignore[operator]
            return tree_map(lambda made: Constant(made, f"what {_layer(node)} computes"), result)
        if node.target not in CALLS:
            advice = ADVICE.get(node.target, SUPPORTED)
            raise ValueError(f"{_place(node)} computes {node.target}, which has no place in the file. {advice}")
        try:
            return CALLS[node.target](self._builder, _by_name(node, arguments, named), _shape(node))
        except ValueError as error:
            raise ValueError(f"{_place(node)}: {error}. {SUPPORTED}") from error

    def _part(self, node: fx.Node, results: Sequence[Any], place: int) -> Any:
        """One of the results of an operation; None stands for those that no node computes, as places of maxima."""
        if results[place] is None:
            raise ValueError(
                f"{_place(node)} uses result {place} of {node.args[0]}, which has no place in the file. {SUPPORTED}"
            )
        return results[place]

    def _known(self, arguments: Any) -> Any:
        return fx.map_arg(arguments, lambda node: self._found[node])


def _needed(last: fx.Node) -> set[fx.Node]:
    """All operations that the last one depends on; others (assertions, outputs nobody asked for) are left out."""
    needed, waiting = set[fx.Node](), [last]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return needed


def _by_name(node: fx.Node, arguments: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
    """Arguments by the names of the operation's schema, with defaults for those that are not given."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    found = {argument.name: argument.default_value for argument in schema if argument.has_default_value()}
    return {**found, **dict(zip((argument.name for argument in schema), arguments, strict=False)), **named}


def _depends_on_image(arguments: Any) -> bool:
    return any(isinstance(leaf, Value) for leaf in tree_leaves(arguments))


def _bare(arguments: Any) -> Any:
    return tree_map(lambda leaf: leaf.tensor if isinstance(leaf, Constant) else leaf, arguments)


def _shape(node: fx.Node) -> tuple[int, ...]:
    """Of the result, or of the first where there are several."""
    return tuple(tree_leaves(node.meta["val"])[0].shape)


def _place(node: fx.Node) -> str:
    """Where in the model an operation is, in words, and where in its code."""
    return _layer(node) + _line(node.meta.get("stack_trace") or "")


def _line(stack: str) -> str:
    """The innermost `forward` of a stack that is neither torch's nor ours, " (file.py, line 3)"; nothing if all are."""
    found = re.findall(r'File "(.+)", line (\d+), in forward', stack)
    own = [
        (Path(file).name, line) for file, line in found if file != __file__ and not Path(file).is_relative_to(_TORCH)
    ]
    return " ({}, line {})".format(*own[-1]) if own else ""


def _layer(node: fx.Node) -> str:
    """The layer of an operation, in words."""
    path, kind = list(node.meta["nn_module_stack"].values())[-1]
    name = kind if isinstance(kind, str) else kind.__name__
    own = _own(path)
    return f"the {name.rpartition('.')[2]} at {own!r}" if own else f"the {name.rpartition('.')[2]} itself"


def _own(name: str) -> str:
    """A name inside the model, which `_Logits` wraps."""
    return name.removeprefix("model").removeprefix(".")
