# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What several modules need: warnings as of our callers, and ``with``."""

from __future__ import annotations

import os
import sys
import warnings
from types import TracebackType
from typing import TypeVar

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

T = TypeVar("T", bound="Closing")


def warn(text: str, category: type[Warning]) -> None:
    """Warns at the place of the nearest caller that is not in this package."""
    level = 2
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back  # type: ignore[assignment]
        level += 1
    warnings.warn(text, category, stacklevel=level)


class Closing:
    """Something that ends at the end of a ``with``."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
