# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ways from a partial sum to the normed sum and the new residual.

Each takes (partial, residual, norm), norm being transformers' module, and gives
(normed, new residual).
"""

import tandem.torch
import torch
import torch.distributed as dist


def nccl(partial, residual, norm):
    """What a plain tensor-parallel model does."""
    dist.all_reduce(partial)
    residual = residual + partial
    return norm(residual), residual


class Fused:
    """Tandem's op, whose guard chooses; or its fallback, always."""

    def __init__(self, group, fallback=False):
        self.group = group.name
        self.fallback = fallback

    def __call__(self, partial, residual, norm):
        return tandem.torch.fused_all_reduce_add_rms_norm(
            partial,
            residual,
            norm.weight,
            norm.variance_epsilon,
            self.group,
            fallback=self.fallback,
        )


def order(x):
    """Numbers whose differences count the values of x's type between two."""
    bits = x.contiguous().view(torch.int16 if x.element_size() == 2 else torch.int32)
    bits = bits.to(torch.int64)
    lowest = -(2 ** (8 * x.element_size() - 1))
    return torch.where(bits < 0, lowest - bits, bits)


class Compared:
    """The plain way, with Tandem's op on the same inputs beside it: how much the
    results of each place differ, without what earlier places' differences do."""

    def __init__(self, group):
        self.fused = Fused(group)
        self.places = 0
        self.elements = 0
        self.counts = None

    def __call__(self, partial, residual, norm):
        normed, new = self.fused(partial.clone(), residual, norm)
        want, want_new = nccl(partial, residual, norm)
        steps = (order(normed) - order(want)).abs()
        counts = torch.stack(
            [
                (order(new) != order(want_new)).sum(),
                (steps != 0).sum(),
                steps.max(),
            ]
        )
        if self.counts is None:
            self.counts = counts
        else:
            most = torch.maximum(self.counts[2], counts[2])
            self.counts = torch.cat([self.counts[:2] + counts[:2], most[None]])
        self.places += 1
        self.elements += partial.numel()
        return want, want_new

    def result(self):
        residuals, norms, steps = self.counts.tolist()
        return {
            "places": self.places,
            "elements": self.elements,
            "residuals_that_differ": residuals,
            "norms_that_differ": norms,
            "most_steps": steps,
        }
