# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of the library ``tandem``, and functions that call them.

An op has a kernel for CPUs and CUDA, and a fake one for tracing. It allocates its
results with PyTorch's allocator, reads its operands in place, and launches on the
current stream. The runtime chooses the path by the token count, so that a traced
graph serves every count.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tandem.torch import _checks
from tandem.torch._groups import Group, find_group, get_group
from tandem.torch._launch import BATCH_INVARIANT, FALLBACK, NO_NORM, NONE, Launcher

NAMESPACE = "tandem"

# The operands that all forms of the fused op share.
_OPERANDS = (
    "Tensor gamma, float epsilon, str group, *, Tensor? bias=None, "
    "Tensor? pre_gamma=None, float pre_epsilon=0.0, str rounding='before_gamma', "
    "str pre_rounding='before_gamma', bool batch_invariant=False, bool fallback=False"
)
_FUSED = "fused_all_reduce_add_rms_norm"

_library = torch.library.Library(NAMESPACE, "DEF")

_TYPES = _checks.GAMMA_TYPES
_INFINITY = float("inf")


def _open(name: str, what: str, input: Tensor) -> tuple[Launcher, int]:
    """The launcher of the group, and the runtime's name of the input's type."""
    group = find_group(name)
    if group is None:
        group = get_group(name)
    launcher = group.launcher
    if launcher is None:
        raise RuntimeError(group.why_not())
    if input.device != group.device:
        raise ValueError(
            f"{what} is on {input.device}, group {name!r} on {group.device}"
        )
    code = _TYPES.get(input.dtype)
    if code is None:
        names = ", ".join(str(dtype) for dtype in _TYPES)
        raise TypeError(f"{what} has {input.dtype}, not one of {names}")
    if input.ndim == 0:
        raise ValueError(f"{what} has no dimensions")
    return launcher, code


def _run(
    input: Tensor,
    residual: Tensor | None,
    gamma: Tensor,
    epsilon: float,
    group: str,
    *,
    bias: Tensor | None = None,
    pre_gamma: Tensor | None = None,
    pre_epsilon: float = 0.0,
    rounding: str = "before_gamma",
    pre_rounding: str = "before_gamma",
    batch_invariant: bool = False,
    fallback: bool = False,
    new_residual: str,
    sum_out: bool = False,
) -> list[Tensor]:
    """Checks everything, launches, and returns norm, new residual and sum, those
    of them that are wanted. ``new_residual`` is "no", "made" or "in place"."""
    launcher, code = _open(group, "input", input)
    if torch.is_grad_enabled():
        _checks.check_no_grad(
            input=input, residual=residual, gamma=gamma, bias=bias, pre_gamma=pre_gamma
        )
    shape = input.shape
    hidden = shape[-1]
    stride = _checks.get_row_stride("input", input)
    gaps = stride != hidden
    residual_view = NONE
    if residual is not None:
        _checks.check_like("residual", residual, input)
        residual_stride = _checks.get_row_stride("residual", residual)
        gaps = gaps or residual_stride != hidden
        residual_view = (residual.data_ptr(), residual_stride)
    _checks.check_row("gamma", gamma, input, _TYPES)
    _checks.check_contiguous("gamma", gamma)
    norm = (
        gamma.data_ptr(),
        _TYPES[gamma.dtype],
        _checks.get_rounding(rounding),
        epsilon,
    )
    pre_norm = NO_NORM
    if pre_gamma is not None:
        _checks.check_row("pre_gamma", pre_gamma, input, _TYPES)
        _checks.check_contiguous("pre_gamma", pre_gamma)
        pre_norm = (
            pre_gamma.data_ptr(),
            _TYPES[pre_gamma.dtype],
            _checks.get_rounding(pre_rounding),
            pre_epsilon,
        )
    bias_data = 0
    if bias is not None:
        _checks.check_row("bias", bias, input, (input.dtype,))
        _checks.check_contiguous("bias", bias)
        bias_data = bias.data_ptr()
    if not (0.0 <= epsilon < _INFINITY and 0.0 <= pre_epsilon < _INFINITY):
        raise ValueError(f"epsilon is {epsilon}, pre_epsilon {pre_epsilon}: not sizes")

    elements = input.numel()
    row_bytes = hidden * input.element_size()
    if row_bytes > launcher.row_bytes:
        raise ValueError(
            f"a row of input has {row_bytes} bytes; group {group!r} was made for "
            f"{launcher.row_bytes}"
        )
    if gaps and elements * input.element_size() > launcher.gap_bytes:
        raise ValueError(
            f"rows with gaps may have {launcher.gap_bytes} bytes in all; make input and "
            "residual contiguous"
        )
    flags = 0
    if fallback:
        flags = FALLBACK
    if batch_invariant:
        if not launcher.batch_invariant:
            raise ValueError(f"group {group!r} was made without batch_invariant")
        flags |= BATCH_INVARIANT

    # Contiguous, whatever the input's strides.
    if input.is_contiguous():
        results = [torch.empty_like(input)]
    else:
        results = [torch.empty(shape, dtype=input.dtype, device=input.device)]
    residual_out_view = sum_view = NONE
    if new_residual == "made":
        results.append(torch.empty_like(results[0]))
        residual_out_view = (results[1].data_ptr(), hidden)
    elif new_residual == "in place":
        residual_out_view = residual_view
    if sum_out:
        results.append(torch.empty_like(results[0]))
        sum_view = (results[-1].data_ptr(), hidden)
    if elements:
        # The runtime takes null for an operand that isn't there.
        operands = (input, residual, gamma, bias, pre_gamma)
        if any(tensor is not None and not tensor.data_ptr() for tensor in operands):
            raise ValueError("the memory of an operand has been freed")
        launcher.fused(
            elements // hidden,
            hidden,
            code,
            flags,
            (input.data_ptr(), stride),
            residual_view,
            bias_data,
            pre_norm,
            norm,
            (results[0].data_ptr(), hidden),
            residual_out_view,
            sum_view,
        )
    return results


# What the dispatcher calls; arguments that have their default may be left out.


def _fused(*operands: Any, **more: Any) -> tuple[Tensor, ...]:
    return tuple(_run(*operands, **more, new_residual="made"))


def _fused_norm(*operands: Any, **more: Any) -> Tensor:
    return _run(*operands, **more, new_residual="no")[0]


def _fused_sum(*operands: Any, **more: Any) -> tuple[Tensor, ...]:
    return tuple(_run(*operands, **more, new_residual="made", sum_out=True))


def _note_write(tensor: Tensor) -> None:
    """Lets autograd see that a tensor has changed which it may have saved."""
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)


def _fused_(
    input: Tensor,
    residual: Tensor,
    gamma: Tensor,
    epsilon: float,
    group: str,
    *,
    bias: Tensor | None = None,
    pre_gamma: Tensor | None = None,
    **more: Any,
) -> Tensor:
    for what, other in (
        ("input", input),
        ("gamma", gamma),
        ("bias", bias),
        ("pre_gamma", pre_gamma),
    ):
        if other is not None and _checks.overlap(residual, other):
            raise ValueError(f"residual, which is written to, overlaps {what}")
    norm = _run(
        input,
        residual,
        gamma,
        epsilon,
        group,
        bias=bias,
        pre_gamma=pre_gamma,
        **more,
        new_residual="in place",
    )[0]
    _note_write(residual)
    return norm


def _reduce(input: Tensor, output: Tensor, launcher: Launcher, code: int) -> None:
    elements = input.numel()
    if elements:
        hidden = input.shape[-1]
        if not input.data_ptr():
            raise ValueError("the memory of input has been freed")
        launcher.all_reduce(
            elements // hidden,
            hidden,
            code,
            0,
            (input.data_ptr(), hidden),
            (output.data_ptr(), hidden),
        )


def _all_reduce(input: Tensor, group: str) -> Tensor:
    launcher, code = _open(group, "input", input)
    _checks.check_no_grad(input=input)
    _checks.check_contiguous("input", input)
    output = torch.empty_like(input)
    _reduce(input, output, launcher, code)
    return output


def _all_reduce_(input: Tensor, group: str) -> None:
    launcher, code = _open(group, "input", input)
    _checks.check_no_grad(input=input)
    _checks.check_contiguous("input", input)
    _reduce(input, input, launcher, code)
    _note_write(input)


# --- For tracing ---


def _check_fake(
    input: Tensor, residual: Tensor | None, gamma: Tensor, more: dict[str, Any]
) -> Tensor:
    """What can be said without a group; returns an empty result."""
    rows = {
        "gamma": gamma,
        "bias": more.get("bias"),
        "pre_gamma": more.get("pre_gamma"),
    }
    _checks.check_no_grad(input=input, residual=residual, **rows)
    if input.dtype not in _TYPES:
        names = ", ".join(str(dtype) for dtype in _TYPES)
        raise TypeError(f"input has {input.dtype}, not one of {names}")
    if input.ndim == 0:
        raise ValueError("input has no dimensions")
    if residual is not None:
        _checks.check_like("residual", residual, input)
    for what, row in rows.items():
        if row is not None:
            types = (input.dtype,) if what == "bias" else _TYPES
            _checks.check_row(what, row, input, types)
    for what in ("rounding", "pre_rounding"):
        _checks.get_rounding(more.get(what, "before_gamma"))
    return input.new_empty(input.shape)


def _fake(input, residual, gamma, epsilon, group, **more):  # type: ignore[no-untyped-def]
    norm = _check_fake(input, residual, gamma, more)
    return norm, torch.empty_like(norm)


def _fake_norm(input, residual, gamma, epsilon, group, **more):  # type: ignore[no-untyped-def]
    return _check_fake(input, residual, gamma, more)


def _fake_sum(input, residual, gamma, epsilon, group, **more):  # type: ignore[no-untyped-def]
    norm = _check_fake(input, residual, gamma, more)
    return norm, torch.empty_like(norm), torch.empty_like(norm)


def _fake_all_reduce(input: Tensor, group: str) -> Tensor:
    _checks.check_no_grad(input=input)
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _fake_all_reduce_(input: Tensor, group: str) -> None:
    _checks.check_no_grad(input=input)


def _define(name: str, schema: str, kernel: Any, fake: Any) -> None:
    # A compiler may lay tensors out anew between ops; here strides matter.
    tags = [torch.Tag.pt2_compliant_tag]
    for tag in ("needs_exact_strides", "needs_fixed_stride_order"):
        if hasattr(torch.Tag, tag):
            tags.append(getattr(torch.Tag, tag))
            break
    _library.define(name + schema, tags=tuple(tags))
    for key in ("CPU", "CUDA"):
        _library.impl(name, kernel, key)
    # No gradient: the kernel and its fake refuse tensors that want one.
    _library.impl(name, torch.library.fallthrough_kernel, "Autograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_library)


_define(
    _FUSED,
    f"(Tensor input, Tensor? residual, {_OPERANDS}) -> (Tensor norm, Tensor residual_out)",
    _fused,
    _fake,
)
_define(
    _FUSED + ".norm",
    f"(Tensor input, Tensor? residual, {_OPERANDS}) -> Tensor",
    _fused_norm,
    _fake_norm,
)
_define(
    _FUSED + ".sum",
    f"(Tensor input, Tensor? residual, {_OPERANDS}) "
    "-> (Tensor norm, Tensor residual_out, Tensor sum)",
    _fused_sum,
    _fake_sum,
)
_define(
    _FUSED + "_",
    f"(Tensor input, Tensor(a!) residual, {_OPERANDS}) -> Tensor",
    _fused_,
    _fake_norm,
)
_define("all_reduce", "(Tensor input, str group) -> Tensor", _all_reduce, _fake_all_reduce)
_define(
    "all_reduce_", "(Tensor(a!) input, str group) -> ()", _all_reduce_, _fake_all_reduce_
)


# --- What people call ---


def _name(group: Group | str) -> str:
    if isinstance(group, str):
        return group
    if not isinstance(group, Group):
        raise TypeError(f"group is {type(group).__name__}, not a Group or its name")
    return group.name


def _check_given(**tensors: Any) -> None:
    """Raises where one is no tensor; torch would let None through to the op."""
    for what, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what} is {type(tensor).__name__}, not a Tensor")


def fused_all_reduce_add_rms_norm(
    input: Tensor,
    residual: Tensor | None,
    gamma: Tensor,
    epsilon: float,
    group: Group | str,
    *,
    bias: Tensor | None = None,
    pre_gamma: Tensor | None = None,
    pre_epsilon: float = 0.0,
    rounding: str = "before_gamma",
    pre_rounding: str = "before_gamma",
    batch_invariant: bool = False,
    fallback: bool = False,
) -> tuple[Tensor, Tensor]:
    """The norm and the new residual. Collective. rn being one rounding to the type::

        s = rn(sum of the ranks' inputs)
        s = rn(s + bias)                 with a bias
        s = rms_norm(s, pre_gamma)       with a pre_gamma
        r = rn(s + residual)             or s, where residual is None
        return rms_norm(r, gamma), r

    ``input`` is [..., hidden], its rows at equal distances. ``rounding`` says whether
    the normalised value is rounded before it is multiplied by gamma (as Hugging Face's
    modules do) or after it (as torch.nn.RMSNorm does). Up to the group's token limit it
    is one kernel; above it, and with ``fallback``, an all-reduce and a kernel.
    """
    _check_given(input=input, gamma=gamma)
    result: tuple[Tensor, Tensor] = _ops.fused_all_reduce_add_rms_norm.default(
        input, residual, gamma, epsilon, _name(group), bias=bias, pre_gamma=pre_gamma,
        pre_epsilon=pre_epsilon, rounding=rounding, pre_rounding=pre_rounding,
        batch_invariant=batch_invariant, fallback=fallback,
    )  # fmt: skip
    return result


def fused_all_reduce_add_rms_norm_(
    input: Tensor,
    residual: Tensor,
    gamma: Tensor,
    epsilon: float,
    group: Group | str,
    *,
    bias: Tensor | None = None,
    pre_gamma: Tensor | None = None,
    pre_epsilon: float = 0.0,
    rounding: str = "before_gamma",
    pre_rounding: str = "before_gamma",
    batch_invariant: bool = False,
    fallback: bool = False,
) -> Tensor:
    """The same with the new residual in place of the old one; returns the norm."""
    _check_given(input=input, residual=residual, gamma=gamma)
    norm: Tensor = _ops.fused_all_reduce_add_rms_norm_.default(
        input, residual, gamma, epsilon, _name(group), bias=bias, pre_gamma=pre_gamma,
        pre_epsilon=pre_epsilon, rounding=rounding, pre_rounding=pre_rounding,
        batch_invariant=batch_invariant, fallback=fallback,
    )  # fmt: skip
    return norm


def all_reduce(input: Tensor, group: Group | str) -> Tensor:
    """The sum over the ranks, added in rank order in f32 where the fused path serves.
    Collective."""
    _check_given(input=input)
    output: Tensor = _ops.all_reduce.default(input, _name(group))
    return output


def all_reduce_(input: Tensor, group: Group | str) -> Tensor:
    """The same in place; returns ``input``."""
    _check_given(input=input)
    _ops.all_reduce_.default(input, _name(group))
    return input


_ops: Any = torch.ops.tandem
