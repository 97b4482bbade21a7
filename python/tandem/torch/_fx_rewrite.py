# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Brings what the passes made of a module back to the FX graph that it came from.

The module's ops are followed in their order. Each is an op of the graph, at most with
other operands; a fused op; or something small that the fusion made. All is planned
before the graph is touched.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from tandem.torch._fx_to_mlir import EmittedOp, Emitter

_LINE = re.compile(r":(\d+):1$")
_FUSED = "tandem.fused_all_reduce_norm"


class CannotApply(Exception):
    """The module holds something that has no place in the graph: a bug."""


@dataclasses.dataclass
class _Made:
    """A node that doesn't exist yet."""

    #: "fused", "result" (of ``inputs[0]``), "copy" (of ``source``, with pairs of old
    #: and new inputs), "view" or "add".
    kind: str
    inputs: list[Any]
    number: int = 0
    source: fx.Node | None = None
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Of a view its shape, of a fused op how many operands of each kind it has.
    sizes: list[int] = dataclasses.field(default_factory=list)
    node: fx.Node | None = None


class Rewriter:
    """Applies one fused module, given as ``Module.graph()``, to its graph."""

    def __init__(self, graph: fx.Graph, emitter: Emitter, ops: list[dict[str, Any]]):
        self.graph = graph
        self.emitter = emitter
        self.ops = [op for op in ops if op["function"] == "main"]
        #: The value of each (op, result): a node, a _Made, or None where nothing of
        #: the graph reads it.
        self.values: dict[tuple[int, int], Any] = {}
        #: The graph's nodes in their new order.
        self.order: list[Any] = []
        self.placed: set[fx.Node] = set()
        self.replaced: list[tuple[fx.Node, fx.Node, _Made]] = []

    # --- Planning ---

    def plan(self) -> None:
        """Follows the module; changes nothing. Raises CannotApply."""
        for op in self.ops:
            try:
                if op["op"] == _FUSED:
                    self._plan_fused(op)
                else:
                    self._plan_other(op)
            except (LookupError, ValueError) as error:
                raise CannotApply(f"{op['op']} at {op['location']}: {error!r}") from error

    def _inputs(self, op: dict[str, Any]) -> list[Any]:
        values = []
        for producer, number in zip(op["inputs"], op["input_results"]):
            if producer < 0:
                values.append(self.emitter.arguments[number])
            else:
                values.append(self.values.get((producer, number)))
        return values

    def _plan_fused(self, op: dict[str, Any]) -> None:
        attributes = op["attributes"]
        made = _Made("fused", self._inputs(op), attributes=attributes)
        made.sizes = _get_segments(attributes["operandSegmentSizes"])
        _group(attributes["group"])
        if any(value is None for value in made.inputs[: sum(made.sizes[:5])]):
            raise CannotApply(f"{op['op']} at {op['location']} reads what isn't there")
        self.order.append(made)
        for number in range(len(op["types"])):
            result = _Made("result", [made], number)
            self.order.append(result)
            self.values[op["id"], number] = result

    def _plan_other(self, op: dict[str, Any]) -> None:
        inputs = self._inputs(op)
        emitted = self._find_emitted(op)
        if emitted is not None:
            self._plan_emitted(op, emitted, inputs)
        elif op["op"] in ("tensor.cast",):
            self.values[op["id"], 0] = inputs[0]  # It only says more of the type.
        elif op["op"] == "tensor.collapse_shape":
            # A gamma or a bias with leading ones.
            size = int(re.findall(r"\d+", op["types"][0])[0])
            made = _Made("view", inputs, sizes=[size])
            self.order.append(made)
            self.values[op["id"], 0] = made
        elif op["op"] == "tandem.add":
            # The operands of two all-reduces that are one now.
            made = _Made("add", inputs)
            self.order.append(made)
            self.values[op["id"], 0] = made
        elif op["op"] not in ("tensor.empty", "tensor.dim", "arith.constant"):
            raise CannotApply(f"{op['op']} at {op['location']}")

    def _find_emitted(self, op: dict[str, Any]) -> EmittedOp | None:
        """The op of ours that this is, or is a copy of."""
        match = _LINE.search(op["location"])
        if match is None:
            return None
        emitted = self.emitter.ops[int(match.group(1))]
        name = emitted.name
        if op["op"] not in (name, _label(name, emitted.node)):
            return None
        return emitted

    def _plan_emitted(
        self, op: dict[str, Any], emitted: EmittedOp, inputs: list[Any]
    ) -> None:
        node = emitted.node
        changed = [
            (old, new)
            for old, new in zip(emitted.operands, inputs, strict=True)
            if old is not None and new is not old
        ]
        if any(new is None for _, new in changed):
            raise CannotApply(f"{op['op']} at {op['location']} reads what isn't there")
        if node.target is operator.getitem and changed:
            # An element of a norm with several results, which is one value now.
            self.values[op["id"], 0] = changed[0][1]
            return
        if node in self.placed and emitted.final:
            # A view that the fusion has put at a second place.
            made = _Made("copy", changed, source=node)
            self.order.append(made)
            self.values[op["id"], 0] = made
            return
        for old, new in changed:
            self.replaced.append((node, old, new))
        if emitted.final or node.op == "output":
            self.placed.add(node)
            if node.op != "output":
                self.order.append(node)
        if emitted.final:
            self.values[op["id"], 0] = node

    # --- Applying ---

    def apply(self) -> None:
        """Changes the graph as planned."""
        graph = self.graph
        output = next(node for node in reversed(graph.nodes) if node.op == "output")
        heads = [node for node in graph.nodes if node.op in ("placeholder", "get_attr")]
        old = [node for node in graph.nodes if node not in self.placed]
        with graph.inserting_before(output):
            for item in self.order:
                if isinstance(item, _Made):
                    item.node = self._create(item)
                else:
                    output.prepend(item)
        for node, before, after in self.replaced:
            new = _node(after)
            node.replace_input_with(before, new)
        keep = {*heads, output}
        for node in reversed(old):
            if node not in keep:
                if node.users:
                    raise AssertionError(f"{node} is still used by {list(node.users)}")
                graph.erase_node(node)
        graph.lint()

    def _create(self, made: _Made) -> fx.Node:
        if made.kind == "result":
            return self._create_result(made)
        if made.kind == "fused":
            return self._create_fused(made)
        if made.kind == "view":
            source = _node(made.inputs[0])
            return self._call(torch.ops.aten.reshape.default, (source, made.sizes), {}, source)
        if made.kind == "add":
            a, b = (_node(value) for value in made.inputs)
            return self._call(torch.ops.aten.add.Tensor, (a, b), {}, a)
        # Some of the node's operands are others now.
        assert made.source is not None
        changed = {old: _node(new) for old, new in made.inputs}
        copy = self.graph.node_copy(made.source, lambda node: changed.get(node, node))
        return copy

    def _create_fused(self, made: _Made) -> fx.Node:
        attributes = made.attributes
        operands: list[fx.Node | None] = []
        position = 0
        for size in made.sizes[:5]:
            operand = _node(made.inputs[position]) if size else None
            operands.append(operand and self._make_contiguous(operand))
            position += size
        input, residual, bias, pre_gamma, gamma = operands
        assert input is not None
        kwargs: dict[str, Any] = {}
        if bias is not None:
            kwargs["bias"] = bias
        if pre_gamma is not None:
            kwargs["pre_gamma"] = pre_gamma
            kwargs["pre_epsilon"] = _number(attributes["pre_epsilon"])
            kwargs["pre_rounding"] = _rounding(attributes.get("pre_rounding", ""))
        kwargs["rounding"] = _rounding(attributes.get("rounding", ""))
        if "batch_invariant" in attributes:
            kwargs["batch_invariant"] = True
        op = torch.ops.tandem.fused_all_reduce_add_rms_norm
        made.number = 1
        target = op.norm
        returns_sum = "returns_sum" in attributes
        if residual is bias is pre_gamma is None:
            returns_sum = False  # It is the new residual.
        if returns_sum:
            made.number, target = 3, op.sum
        elif "returns_sum" in attributes or "returns_residual" in attributes:
            made.number, target = 2, op.default
        arguments = (
            input, residual, gamma, _number(attributes["epsilon"]), _group(attributes["group"])
        )  # fmt: skip
        return self._call(target, arguments, kwargs, input)

    def _make_contiguous(self, node: fx.Node) -> fx.Node:
        """The op is strict about strides; the ops that it replaces weren't."""
        if node.meta["val"].is_contiguous():
            return node
        return self._call(
            torch.ops.aten.clone.default,
            (node,),
            {"memory_format": torch.contiguous_format},
            node,
        )

    def _create_result(self, made: _Made) -> fx.Node:
        fused = made.inputs[0]
        assert fused.node is not None
        if fused.number == 1:
            return fused.node
        # Ops with the sum always give the new residual, too.
        number = made.number
        if number == 1 and "returns_residual" not in fused.attributes:
            number = fused.number - 1
        return self._call(operator.getitem, (fused.node, number), {}, fused.node)

    def _call(self, target: Any, args: Any, kwargs: Any, like: fx.Node) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        for key in ("stack_trace", "nn_module_stack", "original_aten"):
            if key in like.meta:
                node.meta[key] = like.meta[key]
        values = fx.node.map_arg((args, kwargs), lambda node: node.meta["val"])
        node.meta["val"] = target(*values[0], **values[1])
        return node


def _label(name: str, node: fx.Node) -> str:
    """What Module.graph() calls an op that is an onnx.Custom."""
    if name != "onnx.Custom":
        return name
    return f"_c10d_functional::{str(node.target).split('.')[1]}"


def _node(value: Any) -> fx.Node:
    node = value.node if isinstance(value, _Made) else value
    assert isinstance(node, fx.Node)
    return node


def _get_segments(text: str) -> list[int]:
    """The numbers in array<i32: 1, 0, 2>."""
    return [int(number) for number in re.findall(r"\d+", text.split(":")[1])]


def _number(text: str) -> float:
    return float(text.split(":")[0])


def _rounding(text: str) -> str:
    return "after_gamma" if "after_gamma" in text else "before_gamma"


def _group(text: str) -> str:
    """The name in #tandem.group<"NAME", ...>."""
    match = re.search(r'<"((?:[^"\\]|\\.)*)"', text)
    if match is None:
        raise CannotApply(f"group {text}")
    name = re.sub(
        rb"\\(\\|[0-9A-Fa-f]{2})",
        lambda code: b"\\" if code.group(1) == b"\\" else bytes([int(code.group(1), 16)]),
        match.group(1).encode(),
    )
    return name.decode()
