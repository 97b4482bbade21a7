# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an op asks of its tensors, said before anything is launched."""

from __future__ import annotations

from typing import Any

import torch

from tandem.torch._groups import DTYPES

GAMMA_TYPES = {dtype: int(code) for dtype, code in DTYPES.items()}
ROUNDINGS = {"before_gamma": 0, "after_gamma": 1}


def fail_grad(what: str) -> None:
    raise RuntimeError(
        f"{what} requires grad, and Tandem's ops have no gradient: call them under "
        "torch.no_grad() or torch.inference_mode(), or detach what they get"
    )


def check_no_grad(**tensors: torch.Tensor | None) -> None:
    """Raises RuntimeError where a gradient would be wanted."""
    if torch.is_grad_enabled():
        for what, tensor in tensors.items():
            if tensor is not None and tensor.requires_grad:
                fail_grad(what)


def _describe(tensor: torch.Tensor) -> str:
    shape, strides = list(tensor.shape), list(tensor.stride())
    return f"{tensor.dtype}, {tensor.device}, shape {shape}, strides {strides}"


def check_like(what: str, tensor: torch.Tensor, input: torch.Tensor) -> None:
    """Raises unless ``tensor`` has the input's type, device and shape."""
    if tensor.dtype != input.dtype:
        raise TypeError(f"{what} has {tensor.dtype}, input {input.dtype}")
    if tensor.device != input.device:
        raise ValueError(f"{what} is on {tensor.device}, input on {input.device}")
    if tensor.shape != input.shape:
        raise ValueError(
            f"{what} has the shape {list(tensor.shape)}, input {list(input.shape)}"
        )


def check_row(
    what: str,
    tensor: torch.Tensor,
    input: torch.Tensor,
    dtypes: Any,
) -> None:
    """Raises unless ``tensor`` is one row: a gamma or a bias."""
    if tensor.dtype not in dtypes:
        names = " or ".join(str(dtype) for dtype in dtypes)
        raise TypeError(f"{what} has {tensor.dtype}, not {names}")
    if tensor.device != input.device:
        raise ValueError(f"{what} is on {tensor.device}, input on {input.device}")
    if tensor.ndim != 1 or tensor.shape[0] != input.shape[-1]:
        raise ValueError(
            f"{what} has the shape {list(tensor.shape)}, not [{input.shape[-1]}]"
        )


def check_contiguous(what: str, tensor: torch.Tensor) -> None:
    if not tensor.is_contiguous():
        raise ValueError(f"{what} must be contiguous; it has {_describe(tensor)}")


def get_row_stride(what: str, tensor: torch.Tensor) -> int:
    """The elements from row to row of a tensor that is rows of its last dimension,
    each in one piece, at equal distances. Raises ValueError for others."""
    if tensor.is_contiguous():
        return int(tensor.shape[-1])
    shape, strides = tensor.shape, tensor.stride()
    if strides[-1] != 1 and shape[-1] != 1:
        raise ValueError(
            f"the rows of {what} must be in one piece; it has {_describe(tensor)}"
        )
    stride = step = None
    for size, distance in zip(reversed(shape[:-1]), reversed(strides[:-1])):
        if size == 1:
            continue
        if step is None:
            stride = distance
        elif distance != step:
            raise ValueError(
                f"the rows of {what} must be at equal distances; it has "
                f"{_describe(tensor)}"
            )
        step = distance * size
    if stride is None:  # One row.
        return int(shape[-1])
    if stride < shape[-1]:
        raise ValueError(f"the rows of {what} overlap; it has {_describe(tensor)}")
    return int(stride)


def get_rounding(rounding: str) -> int:
    code = ROUNDINGS.get(rounding)
    if code is None:
        raise ValueError(f"rounding is {rounding!r}, not one of {tuple(ROUNDINGS)}")
    return code


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the memory from the first to the last element of two tensors meets."""

    def span(tensor: torch.Tensor) -> tuple[int, int]:
        if tensor.numel() == 0:
            return 0, 0
        if tensor.is_contiguous():
            return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride()))
        start = tensor.data_ptr()
        return start, start + (last + 1) * tensor.element_size()

    (a0, a1), (b0, b1) = span(a), span(b)
    return a0 < b1 and b0 < a1
