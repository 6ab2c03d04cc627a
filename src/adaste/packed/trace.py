"""From a torch model to nodes: what it computes for an image, operation by operation.

torch.export runs the model once and writes down torch's own operations, without side effects. Those that depend on the
inputs become nodes, by the table in `aten.py`; all others, whatever they are, are computed here and now.
"""

import copy
import inspect
import itertools
import logging
import operator
import re
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves, tree_map

from adaste.packed.aten import BRANCHES, CALLS, CASTS, OF_TRUTH, SORTING, SUPPORTED, TAKE_WHOLE, Nearest, find_nearest
from adaste.packed.graph import (
    BATCH,
    INPUT,
    LOGITS,
    Arguments,
    Builder,
    Constant,
    Input,
    Misfit,
    Output,
    Value,
    value_of,
)
from adaste.packed.nodes import Node

_TORCH = Path(torch.__file__).parent

_ONE_AT_A_TIME = threading.RLock()
"""What torch.export reads and `trace` changes for a while belongs to the whole process: where torch logs, the standard
error stream, the warnings that are shown, and how torch computes attention."""

Example = Tensor | Sequence[Tensor] | Mapping[str, Tensor]
"""A batch of inputs: one tensor, or several by their places or by their names."""


@dataclass(frozen=True)
class Traced:
    """A model as nodes, all in float32, and its results for the example.

    Args:
        inputs: What the model is given.
        nodes: The operations in the order of execution.
        outputs: What the model gives.
        weights: The names of the parameters that are the weights of layers, by the outputs of these.
        example: The inputs it was traced with, by name.
        results: The model's results for them, by name.
    """

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    weights: dict[str, str]
    example: dict[str, Tensor]
    results: dict[str, Tensor]


def trace(model: nn.Module, example: Example, *, exact: bool = False, sized: bool = False) -> Traced:
    """Return the trace of a model in evaluation mode, for inputs like `example`, each with the batch first.

    With `exact` no form of an operation is chosen that version 1 has, but that rounds small numbers away; with `sized`
    none that holds a number for each place of a side that may be free. Threads that trace at once take turns.
    """
    given = name_inputs(model, example)
    with _ONE_AT_A_TIME, torch.no_grad(), _without_fast_path():
        network = _Results(copy.deepcopy(model).cpu(), None if not isinstance(example, Mapping) else tuple(given))
        network = network.float().eval()
        tensors = {name: value.detach().cpu() for name, value in given.items()}
        tensors = {name: value.float() if value.is_floating_point() else value for name, value in tensors.items()}
        found = network(*tensors.values())
        results = dict(zip(network.names, found, strict=True))
        for result in results.values():
            _check_result(result, model)
        inputs = tuple(
            Input(name=name, shape=tuple(value.shape[1:]), type="float" if value.is_floating_point() else "integer")
            for name, value in tensors.items()
        )
        batch = tuple(value[:1].expand(BATCH, *value.shape[1:]).contiguous() for value in tensors.values())
        program = _export(network, batch)
        builder = Builder(inputs, exact=exact, sized=sized)
        values = _Translator(program, builder, inputs).outputs()
    outputs = tuple(Output(name=name, value=value) for name, value in zip(results, values, strict=True))
    return Traced(inputs, tuple(builder.nodes), outputs, builder.weights, tensors, results)


@contextmanager
def _without_fast_path() -> Iterator[None]:
    """Let torch's attention compute with the operations that it has in training, which are documented ones."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def name_inputs(model: nn.Module, example: Any) -> dict[str, Tensor]:
    """Return the tensors of an example by name: the parameters of `forward` for those given by place."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if isinstance(example, Tensor):
        named = {INPUT: example}
    elif isinstance(example, Mapping):
        named = dict(example)
    elif isinstance(example, list | tuple):
        names = list(inspect.signature(model.forward).parameters)
        named = dict(itertools.zip_longest(names[: len(example)], example))
    else:
        named = {INPUT: example}
    for name, value in named.items():
        if not isinstance(value, Tensor) or value.dim() < 1 or not len(value):
            shown = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                "example must be a tensor of images (n, channels, height, width), or other tensors with their batch "
                f"first in a tuple or a dict, got {shown}"
            )
        if len(named) == 1 and value.is_floating_point() and value.dim() == 1:
            raise ValueError(
                f"example must have a dimension for the batch, the first one, got {tuple(value.shape)} for {name}: if "
                "it is one input, give example.unsqueeze(0), a batch of one"
            )
        if value.is_floating_point() and not value.isfinite().all():
            raise ValueError(f"example must hold finite numbers, got NaN or infinite ones in {name}")
    if not named or len({len(value) for value in named.values()}) > 1:
        raise ValueError(f"all tensors of example must have one batch, got {[len(v) for v in named.values()]}")
    return named


def _check_result(result: Tensor, model: nn.Module) -> None:
    """Raise ValueError unless all numbers are finite: the packed network is compared with them."""
    bad = int((~result.isfinite()).sum())
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
        f"the model's own outputs are not finite: {bad} of {result.numel()} for the example, in evaluation mode and "
        f"float32; {cause}"
    )


class _Results(nn.Module):
    """A model that gives its results as a tuple; their names are in `names` after the first call.

    Args:
        model: The model. If its output has `logits`, as those of transformers, these are the result.
        inputs: The names by which the model takes its inputs; None if it takes them by place.
    """

    def __init__(self, model: nn.Module, inputs: tuple[str, ...] | None) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs
        self.names: tuple[str, ...] = ()

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        output = (
            self.model(*inputs) if self.inputs is None else self.model(**dict(zip(self.inputs, inputs, strict=True)))
        )
        logits = getattr(output, LOGITS, None)
        found = {LOGITS: output if isinstance(output, Tensor) else logits}
        if not isinstance(found[LOGITS], Tensor):
            found = dict(_tensors("", output))
        if not found:
            raise ValueError(f"the model must give a tensor, or something that holds some, got {type(output).__name__}")
        self.names = tuple(found)
        return tuple(result for result in found.values() if result is not None)


def _tensors(name: str, output: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the real tensors inside of a mapping or a sequence, with the keys that lead to them."""
    if isinstance(output, Tensor) and output.is_floating_point():
        yield name.removeprefix("."), output
    parts = (
        output.items() if isinstance(output, Mapping) else enumerate(output) if isinstance(output, list | tuple) else ()
    )
    for key, part in parts:
        yield from _tensors(f"{name}.{key}", part)


def _export(network: nn.Module, inputs: tuple[Tensor, ...]) -> ExportedProgram:
    try:
        with _quiet():
            program = torch.export.export(network, inputs, strict=False)
            # With an empty table it only removes side effects: what is written in place becomes a value of its own.
            return _decompose(program.run_decompositions({}) if _writes(program) else program)
    except Exception as error:  # whatever the code of a model does
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        line = _line("".join(traceback.format_tb(error.__traceback__)))
        advice = f". {BRANCHES.advice}" if reason.startswith("Could not guard on data-dependent") else ""
        raise ValueError(f"torch.export could not follow the model{line}: {reason}{advice}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what torch logs, prints and warns of while it follows a model; an error tells the reason.

    What a model itself prints and warns of is not lost: it has run before.
    """
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # those below that have a level of their own, as from TORCH_LOGS, keep it
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _writes(program: ExportedProgram) -> bool:
    """Return whether an operation changes a tensor instead of making one."""
    schemas = [getattr(node.target, "_schema", None) for node in program.graph.nodes]
    return any(schema is not None and schema.is_mutable for schema in schemas)


def _decompose(program: ExportedProgram) -> ExportedProgram:
    """Return a program in which operations without nodes are made of others, by torch's own definitions."""
    tried: set[Any] = set()
    while unknown := _find_unknown(program) - tried:
        table = torch.export.default_decompositions()
        made = {each: each.decompose for each in unknown}  # of operations that are functions of others
        program = program.run_decompositions({**made, **{each: table[each] for each in unknown if each in table}})
        tried |= unknown
    return program


def _find_unknown(program: ExportedProgram) -> set[Any]:
    """Return the operations on inputs that have neither nodes nor a row in the table of what cannot be packed."""
    given, on_inputs = set(program.graph_signature.user_inputs), set[fx.Node]()
    for node in program.graph.nodes:
        if node.name in given or not on_inputs.isdisjoint(node.all_input_nodes):
            on_inputs.add(node)
    targets = {node.target for node in on_inputs & _find_needed(_end(program))} - {*CALLS}
    return {each for each in targets if isinstance(each, OpOverload) and find_nearest(each) is None}


def _end(program: ExportedProgram) -> fx.Node:
    """Return the node of the outputs."""
    last: fx.Node = next(node for node in program.graph.nodes if node.op == "output")
    return last


@dataclass(frozen=True)
class _Refusal:
    """An operation that cannot be packed: where it is, what is wrong with it (with it and others), what is nearest."""

    place: str
    one: str
    many: str
    nearest: Nearest | None


class _Translator:
    """Translates the operations of an exported model; one error names all that cannot be packed."""

    def __init__(self, program: ExportedProgram, builder: Builder, inputs: Sequence[Input]) -> None:
        self._program, self._builder = program, builder
        self._inputs = dict(zip(program.graph_signature.user_inputs, inputs, strict=True))
        self._found: dict[fx.Node, Any] = {}
        self._refused: list[_Refusal] = []
        signature = program.graph_signature
        self._names = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }

    def outputs(self) -> list[str]:
        """Build all nodes, and return the names of the outputs."""
        last = _end(self._program)
        needed = _find_needed(last)
        for node in self._program.graph.nodes:
            if node in needed and node is not last:
                self._found[node] = self._input(node) if node.op == "placeholder" else self._call(node)
        if self._refused:
            raise ValueError(_describe(self._refused))
        return [self._output(result) for result in self._lookup(last.args[0])]

    def _output(self, result: Any) -> str:
        if not isinstance(result, Value):
            raise ValueError("an output of the model does not depend on the image")
        if result.batch or result.merged:
            raise ValueError(f"an output of the model must have the batch first and alone, got {result.torch_shape()}")
        return self._builder.use(result)

    def _input(self, node: fx.Node) -> Constant | Value:
        """Return an input of the program: one of the model's, a parameter, a buffer or another constant."""
        name = self._names.get(node.name)
        if name is None:
            given = self._inputs[node.name]
            return value_of(given.name, (BATCH, *given.shape))
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
            return self._refuse(node, f" computes {what}", f" compute {what}")
        if any(isinstance(leaf, Misfit) for leaf in tree_leaves((arguments, named))):
            return self._stand_in(node)  # that there is one was told before
        try:
            found = CALLS[node.target](self._builder, self._real(node, _by_name(node, arguments, named)), _shape(node))
            return self._typed(found, node)
        except ValueError as error:
            return self._refuse(node, f": {error}", f": {error}")

    def _real(self, node: fx.Node, arguments: Arguments) -> Arguments:
        """Return arguments as real numbers; whole ones of an input stay so where a row of a table is looked up."""
        if node.target in CASTS:
            return {**arguments, "dtype": node.meta["val"].dtype}
        if node.target in TAKE_WHOLE:
            return arguments
        kinds = {each.meta["val"].dtype for each in node.all_input_nodes if isinstance(each.meta.get("val"), Tensor)}
        if node.target in OF_TRUTH and kinds != {torch.bool}:
            raise ValueError(f"it must be of truth values (bool), got {', '.join(sorted(map(str, kinds)))}")
        make = self._builder.real
        real: Arguments = tree_map(lambda leaf: make(leaf) if isinstance(leaf, Value) else leaf, arguments)
        return real

    def _typed(self, found: Any, node: fx.Node) -> Any:
        """Return a result, and remember whether it holds whole numbers, or the truth as 0 and 1."""
        if isinstance(found, Value) and not node.meta["val"].dtype.is_floating_point:
            self._builder.whole.add(found.name)
            if node.meta["val"].dtype == torch.bool:
                self._builder.truth.add(found.name)
        return found

    def _part(self, node: fx.Node, results: Sequence[Any] | Misfit, place: int) -> Any:
        """Return one of the results of an operation; None stands for what no node computes, as indices of maxima."""
        if isinstance(results, Misfit):
            return results
        if results[place] is None:
            what = f"result {place} of {node.args[0]}, which has no place in the file"
            return self._refuse(node, f" uses {what}", f" use {what}", SORTING)
        return results[place]

    def _refuse(self, node: fx.Node, one: str, many: str, nearest: Nearest | None = None) -> Any:
        """Remember that an operation cannot be packed, and return what stands for its results."""
        self._refused.append(_Refusal(_place(node), one, many, nearest or find_nearest(node.target)))
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
    rows = dict.fromkeys(refusal.nearest for refusal in refused)
    advice = ". ".join([SUPPORTED, *(row.advice for row in rows if row is not None)])
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
    """Return a name inside the model, which `_Results` wraps."""
    return name.removeprefix("model").removeprefix(".")
