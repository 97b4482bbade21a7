# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An FX graph of ATen ops as an MLIR module that Tandem's passes can read.

What a chain may be made of is written as ONNX ops that mean the same, rounding by
rounding; all else as ops that nobody knows, marked as free of effects where that is
sure. Nothing is looked for here: that is the passes' task. Each op's place is
"NODE" at GRAPH:LINE:1, LINE being its number, so that what the passes leave can be
brought back to the graph.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
prims = torch.ops.prims

_ELEMENTS = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float64: "f64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
}

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)

# What a value is that the passes need to know nothing of.
_UNKNOWN = "tuple<>"


def quote(text: str) -> str:
    """A string as MLIR writes it."""
    plain = set(range(0x20, 0x7F)) - set(b'"\\')
    parts = (chr(b) if b in plain else f"\\{b:02X}" for b in text.encode())
    return '"' + "".join(parts) + '"'


@dataclasses.dataclass
class EmittedOp:
    """One op of the module, and what it has to do with the graph."""

    name: str
    #: The node that it is made of.
    node: fx.Node
    #: For each operand the node of the graph whose value it is, or None for values
    #: between the ops of one node.
    operands: list[fx.Node | None]
    #: Whether its result is the node's value.
    final: bool = False


@dataclasses.dataclass
class _Value:
    name: str
    type: str


class Emitter:
    """Writes one graph. ``text`` is the module, ``ops[LINE]`` the op of that line,
    ``arguments`` the function's arguments.

    ``find_group`` says what a process group is called in the fused op, or None where
    it can't serve that all-reduce.
    """

    def __init__(
        self,
        graph: fx.Graph,
        name: str,
        find_group: Callable[[str, fx.Node], str | None],
    ) -> None:
        self.name = name
        self.find_group = find_group
        self.ops: list[EmittedOp] = []
        self.arguments: list[fx.Node] = []
        self.values: dict[fx.Node, _Value] = {}
        self._lines: list[str] = []
        self._dims: dict[str, str] = {}
        self._count = 0
        self._node: fx.Node | None = None
        heads: list[str] = []
        tail = ""
        for node in graph.nodes:
            self._node = node
            if node.op in ("placeholder", "get_attr"):
                value = self._new_value(node)
                self.values[node] = value
                self.arguments.append(node)
                dims = self._dim_names(node.meta.get("val"))
                attrs = f' {{onnx.dim_params = "{dims}"}}' if dims else ""
                heads.append(f"{value.name}: {value.type}{attrs}")
            elif node.op == "output":
                tail = self._emit_output(node)
            else:
                self._emit(node)
        module_loc = f"loc({quote(name)}:1:1)"
        self.text = "\n".join(
            [
                "module {",
                f"func.func @main({', '.join(heads)}){tail} {{",
                *self._lines,
                f"}} {module_loc}",
                f"}} {module_loc}",
                "",
            ]
        )

    # --- Types ---

    def _type_of(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            element = _ELEMENTS.get(value.dtype)
            if element is None:
                return _UNKNOWN
            sizes = "".join(
                f"{size}x" if isinstance(size, int) else "?x" for size in value.shape
            )
            return f"tensor<{sizes}{element}>"
        if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
            return "index"
        return _UNKNOWN

    def _dim_names(self, value: Any) -> str:
        """Names of the sizes that aren't numbers: one name for one expression."""
        if not isinstance(value, torch.Tensor) or value.dtype not in _ELEMENTS:
            return ""
        names = []
        for index, size in enumerate(value.shape):
            if not isinstance(size, int):
                name = self._dims.setdefault(str(size.node.expr), f"d{len(self._dims)}")
                names.append(f"{index}:{name}")
        return ",".join(names)

    def _new_value(self, node: fx.Node) -> _Value:
        self._count += 1
        return _Value(f"%{self._count}", self._type_of(node.meta.get("val")))

    # --- Writing ---

    def _write(
        self,
        op: str,
        operands: Sequence[fx.Node | _Value],
        result: str,
        attributes: str = "",
        final: bool = False,
        names: str = "",
    ) -> _Value:
        """One op with one result; ``final`` where that is the node's value."""
        node = self._node
        assert node is not None
        values = [self.values[v] if isinstance(v, fx.Node) else v for v in operands]
        self._count += 1
        made = _Value(f"%{self._count}", result)
        line = len(self.ops)
        self.ops.append(
            EmittedOp(op, node, [v if isinstance(v, fx.Node) else None for v in operands], final)
        )
        if final:
            self.values[node] = made
            names = names or self._dim_names(node.meta.get("val"))
        if names:
            attributes += f'{", " if attributes else ""}tandem.dim_params = ["{names}"]'
        self._lines.append(
            f'  {made.name} = "{op}"({", ".join(v.name for v in values)}) {{{attributes}}} : '
            f'({", ".join(v.type for v in values)}) -> {result} '
            f"loc({quote(node.name)}({quote(self.name)}:{line}:1))"
        )
        return made

    def _emit_output(self, node: fx.Node) -> str:
        operands = list(node.all_input_nodes)
        values = [self.values[operand] for operand in operands]
        line = len(self.ops)
        self.ops.append(EmittedOp("func.return", node, list(operands)))
        types = ", ".join(value.type for value in values)
        self._lines.append(
            f'  "func.return"({", ".join(v.name for v in values)}) : ({types}) -> () '
            f"loc({quote(node.name)}({quote(self.name)}:{line}:1))"
        )
        return f" -> ({types})"

    def _emit(self, node: fx.Node) -> None:
        rule = _RULES.get(node.target) if node.op == "call_function" else None
        if rule is None or not rule(self, node):
            self._emit_unknown(node)

    def _emit_unknown(self, node: fx.Node) -> None:
        name = f'name = {quote("torch." + _get_target_name(node))}'
        pure = ", tandem.pure" if is_pure(node) else ""
        self._write(
            "torch.operator",
            node.all_input_nodes,
            self._type_of(node.meta.get("val")),
            name + pure,
            final=True,
        )

    # --- For rules ---

    def final(self, node: fx.Node, op: str, operands: Sequence[Any], attributes: str = "") -> bool:
        self._write(op, operands, self._type_of(node.meta["val"]), attributes, final=True)
        return True

    def constant(self, value: float, dtype: torch.dtype) -> _Value:
        element = _ELEMENTS[dtype]
        text = f"dense<{value:.17e}> : tensor<{element}>"
        return self._write("onnx.Constant", [], f"tensor<{element}>", f"value = {text}")

    def widen(self, operand: fx.Node, dtype: torch.dtype) -> fx.Node | _Value:
        """The operand in this wider type, as PyTorch promotes it."""
        value = operand.meta["val"]
        if value.dtype == dtype:
            return operand
        sizes = self._type_of(value).rsplit(_ELEMENTS[value.dtype], 1)[0]
        return self._write(
            "onnx.Cast",
            [operand],
            f"{sizes}{_ELEMENTS[dtype]}>",
            f"to = {_ELEMENTS[dtype]}",
            names=self._dim_names(value),
        )

    def internal(self, op: str, operands: Sequence[Any], like: fx.Node) -> _Value:
        """A step on the way to a node's value, of that value's type."""
        value = like.meta["val"]
        return self._write(
            op, operands, self._type_of(value), names=self._dim_names(value)
        )


# --- What has effects ---


def _get_target_name(node: fx.Node) -> str:
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    if isinstance(node.target, str):
        return node.target
    return str(getattr(node.target, "__name__", node.target))


_PURE_FUNCTIONS = {
    getattr(operator, name)
    for name in (
        "getitem add sub mul floordiv truediv mod pow neg eq ne lt le gt ge and_ or_ not_"
    ).split()
} | {torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_not}


def is_pure(node: fx.Node) -> bool:
    """Whether a node surely has no effect but its value. Ops of other libraries may
    communicate, whatever their schema says."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return (
            target.namespace in ("aten", "prims")
            and not target._schema.is_mutable
            and len(target._schema.returns) > 0
            and torch.Tag.nondeterministic_seeded not in target.tags
        )
    return node.op == "call_function" and (
        target in _PURE_FUNCTIONS or getattr(target, "__module__", "") == "math"
    )


# --- Rules: FX nodes that mean what an ONNX op means ---

_Rule = Callable[[Emitter, fx.Node], bool]
_RULES: dict[Any, _Rule] = {}


def _rule(*targets: Any) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        for target in targets:
            _RULES[target] = rule
        return rule

    return register


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _FLOATS


def _float_operands(node: fx.Node, count: int) -> bool:
    """Whether the first operands and the result are float tensors."""
    return _is_float(node.meta.get("val")) and all(
        isinstance(arg, fx.Node) and _is_float(arg.meta.get("val"))
        for arg in node.args[:count]
    )


@_rule(prims.convert_element_type.default, aten._to_copy.default, aten.to.dtype)
def _cast(emitter: Emitter, node: fx.Node) -> bool:
    if not _float_operands(node, 1):
        return False
    if node.meta["val"].device != node.args[0].meta["val"].device:
        return False
    if node.target is aten.to.dtype and len(node.args) > 2:
        return False
    to, source = node.meta["val"].dtype, node.args[0].meta["val"].dtype
    if to == source:
        return emitter.final(node, "onnx.Identity", [node.args[0]])
    return emitter.final(
        node, "onnx.Cast", [node.args[0]], f"to = {_ELEMENTS[to]}"
    )


@_rule(aten.clone.default, aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default)
def _identity(emitter: Emitter, node: fx.Node) -> bool:
    return _float_operands(node, 1) and emitter.final(
        node, "onnx.Identity", [node.args[0]]
    )


def _is_within(narrow: torch.dtype, wide: torch.dtype) -> bool:
    """Whether each number of the one type is one of the other."""
    return narrow == wide or torch.promote_types(narrow, wide) == wide


def _binary(op: str) -> _Rule:
    def rule(emitter: Emitter, node: fx.Node) -> bool:
        if set(node.kwargs) - {"alpha"} or node.kwargs.get("alpha", 1) != 1:
            return False
        if len(node.args) != 2 or not _float_operands(node, 1):
            return False
        dtype = node.meta["val"].dtype
        a, b = node.args
        if _float_operands(node, 2):
            # A scalar of a wider type isn't rounded to the result's.
            if not all(_is_within(arg.meta["val"].dtype, dtype) for arg in (a, b)):
                return False
            operands: list[Any] = [emitter.widen(a, dtype), emitter.widen(b, dtype)]
        elif isinstance(b, (int, float)) and not isinstance(b, bool):
            if a.meta["val"].dtype != dtype:
                return False
            operands = [a, emitter.constant(float(b), dtype)]
        else:
            return False
        return emitter.final(node, f"onnx.{op}", operands)

    return rule


_rule(aten.add.Tensor, aten.add.Scalar)(_binary("Add"))
_rule(aten.mul.Tensor, aten.mul.Scalar)(_binary("Mul"))
_rule(aten.div.Tensor, aten.div.Scalar)(_binary("Div"))
_rule(aten.pow.Tensor_Scalar)(_binary("Pow"))


@_rule(aten.add_.Tensor, aten.add_.Scalar)
def _add_in_place(emitter: Emitter, node: fx.Node) -> bool:
    return _is_private(node.args[0], node) and _binary("Add")(emitter, node)


@_rule(aten.square.default)
def _square(emitter: Emitter, node: fx.Node) -> bool:
    return _float_operands(node, 1) and emitter.final(
        node, "onnx.Mul", [node.args[0], node.args[0]]
    )


@_rule(aten.rsqrt.default)
def _rsqrt(emitter: Emitter, node: fx.Node) -> bool:
    if not _float_operands(node, 1):
        return False
    root = emitter.internal("onnx.Sqrt", [node.args[0]], node)
    return emitter.final(node, "onnx.Reciprocal", [root])


@_rule(aten.sqrt.default)
def _sqrt(emitter: Emitter, node: fx.Node) -> bool:
    return _float_operands(node, 1) and emitter.final(node, "onnx.Sqrt", [node.args[0]])


@_rule(aten.reciprocal.default)
def _reciprocal(emitter: Emitter, node: fx.Node) -> bool:
    return _float_operands(node, 1) and emitter.final(
        node, "onnx.Reciprocal", [node.args[0]]
    )


@_rule(aten.mean.dim)
def _mean(emitter: Emitter, node: fx.Node) -> bool:
    dims = node.args[1] if len(node.args) > 1 else None
    if not _float_operands(node, 1) or node.kwargs or not isinstance(dims, (list, tuple)):
        return False
    if not all(isinstance(dim, int) for dim in dims):
        return False
    keep = int(bool(node.args[2])) if len(node.args) > 2 else 0
    axes = ", ".join(map(str, dims))
    return emitter.final(
        node,
        "onnx.ReduceMean",
        [node.args[0]],
        f"axes = [{axes}], keepdims = {keep} : si64",
    )


@_rule(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.squeeze.default,
)
def _reshape(emitter: Emitter, node: fx.Node) -> bool:
    if not _float_operands(node, 1):
        return False
    rank = node.meta["val"].ndim
    # Its sizes are in the result's type and names.
    shape = emitter._write(
        "torch.operator",
        [arg for arg in node.all_input_nodes if arg is not node.args[0]],
        f"tensor<{rank}xi64>",
        'name = "torch.shape", tandem.pure',
    )
    return emitter.final(node, "onnx.Reshape", [node.args[0], shape])


# PyTorch 2.7 and earlier have only the second.
_FUSED_RMS_NORM = getattr(getattr(aten, "_fused_rms_norm", None), "default", None)


@_rule(*filter(None, (_FUSED_RMS_NORM, aten.rms_norm.default)))
def _rms_norm(emitter: Emitter, node: fx.Node) -> bool:
    if len(node.args) < 4 or node.kwargs:
        return False
    x, sizes, gamma, epsilon = node.args
    val = node.meta.get("val")
    several = isinstance(val, (list, tuple))
    out = val[0] if several else val
    if not isinstance(gamma, fx.Node) or not isinstance(epsilon, float):
        return False
    if not all(_is_float(value) for value in (out, x.meta.get("val"), gamma.meta.get("val"))):
        return False
    if list(sizes) != [x.meta["val"].shape[-1]] or out.dtype != x.meta["val"].dtype:
        return False
    if several and any(
        user.target is not operator.getitem or user.args[1] != 0 for user in node.users
    ):
        return False  # Its statistics are used, too.
    # PyTorch multiplies in f32, and rounds once.
    made = emitter._write(
        "onnx.SimplifiedLayerNormalization",
        [x, gamma],
        emitter._type_of(out),
        f"axis = -1 : si64, epsilon = {epsilon:.17e} : f32",
        final=True,
        names=emitter._dim_names(out),
    )
    return made is emitter.values[node]


@_rule(operator.getitem)
def _getitem(emitter: Emitter, node: fx.Node) -> bool:
    source = node.args[0]
    if _FUSED_RMS_NORM is None or getattr(source, "target", None) is not _FUSED_RMS_NORM:
        return False
    if emitter.values[source].type == _UNKNOWN:
        return False
    # The norm's value is this node's.
    return emitter.final(node, "onnx.Identity", [source])


_collectives = torch.ops._c10d_functional


def _is_private(value: Any, writer: fx.Node) -> bool:
    """Whether nothing but a node sees the tensor that it writes to."""
    return (
        isinstance(value, fx.Node)
        and value.op == "call_function"
        and set(value.users) == {writer}
        and isinstance(value.target, torch._ops.OpOverload)
        and not any(r.alias_info is not None for r in value.target._schema.returns)
    )


@_rule(_collectives.all_reduce.default, _collectives.all_reduce_.default)
def _all_reduce(emitter: Emitter, node: fx.Node) -> bool:
    if len(node.args) != 3 or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    tensor, reduction, group = node.args
    if node.target is _collectives.all_reduce_.default and not _is_private(tensor, node):
        return False
    attributes = (
        'domain_name = "_c10d_functional", function_name = "all_reduce", '
        f"reduce_op = {quote(str(reduction).lower())}"
    )
    ours = emitter.find_group(group, node) if isinstance(group, str) else None
    if ours is not None:
        attributes += f", group_name = {quote(ours)}"
    return emitter.final(node, "onnx.Custom", [tensor], attributes)


@_rule(_collectives.wait_tensor.default)
def _wait(emitter: Emitter, node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor) and emitter.final(
        node,
        "onnx.Custom",
        [node.args[0]],
        'domain_name = "_c10d_functional", function_name = "wait_tensor"',
    )
