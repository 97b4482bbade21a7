# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What became of each all-reduce; needs no LLVM."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Site:
    """One all-reduce of the source; docs/report.md explains the fields."""

    function: str
    location: str
    status: str  # "fused" or "missed"
    group: str
    dtype: str
    hidden: int | None = None
    world_size: int | None = None
    # Of a fused one.
    pattern: str | None = None
    guard: str | None = None
    # Of a missed one.
    reason: str | None = None
    message: str | None = None
    blocked_by: str | None = None
    suggestion: str | None = None
    # Fields of later versions.
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def fused(self) -> bool:
        return self.status == "fused"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Site:
        names = {field.name for field in dataclasses.fields(cls)} - {"extra"}
        known = {key: value for key, value in values.items() if key in names}
        extra = {key: value for key, value in values.items() if key not in names}
        return cls(**known, extra=extra)


# Fields that only a site of the one kind has.
_FUSED_FIELDS = ("pattern", "guard")
_MISSED_FIELDS = ("reason", "message", "blocked_by", "suggestion")


@dataclasses.dataclass(frozen=True)
class Report:
    """All sites of a module, in the order in which they execute."""

    model: str
    sites: tuple[Site, ...]
    guarded: int = 0
    version: int = 1
    #: The graph before the passes, where it was asked for.
    graph: Mapping[str, Any] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    @property
    def all_reduces(self) -> int:
        return len(self.sites)

    @property
    def fused(self) -> int:
        return sum(site.fused for site in self.sites)

    @property
    def missed(self) -> int:
        return self.all_reduces - self.fused

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Reads a report of ``report=FILE``. Raises ValueError where it is none."""
        try:
            values = json.loads(text)
            version = values["version"]
            if version != 1:
                raise ValueError(f"reports of version {version} are not known")
            return cls(
                model=values["model"],
                sites=tuple(Site.from_dict(site) for site in values["sites"]),
                guarded=values["summary"]["guarded"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a report of Tandem: {error!r}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Report:
        """Reads the report in a file."""
        try:
            return cls.from_json(pathlib.Path(path).read_bytes())
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None

    def to_json(self) -> str:
        """The report as docs/report.md describes it."""
        sites = []
        for site in self.sites:
            values = dataclasses.asdict(site)
            extra = values.pop("extra")
            other = _MISSED_FIELDS if site.fused else _FUSED_FIELDS
            sites.append(
                {k: v for k, v in values.items() if k not in other} | dict(extra)
            )
        summary = {
            "all_reduces": self.all_reduces,
            "fused": self.fused,
            "guarded": self.guarded,
            "missed": self.missed,
        }
        values = {"version": 1, "model": self.model, "summary": summary, "sites": sites}
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        return (
            f"fused {self.fused} of {self.all_reduces} all-reduces "
            f"({self.missed} missed)"
        )

    def table(self, *, width: int | None = None) -> str:
        """The sites as text, one line each, and what to do about the missed."""
        lines = format_table(
            ["", "function", "place", "pattern or reason", "guard", "type"],
            (
                [
                    "fused" if site.fused else "MISSED",
                    site.function,
                    shorten(site.location),
                    (site.pattern if site.fused else site.reason) or "",
                    site.guard or "",
                    f"{'?' if site.hidden is None else site.hidden} x {site.dtype}",
                ]
                for site in self.sites
            ),
        )
        for reason, sites in self.misses().items():
            first = sites[0]
            lines += ["", f"{reason} ({len(sites)}): {first.message}"]
            if first.blocked_by:
                lines.append(f"  in the way: {first.blocked_by}")
            if first.suggestion:
                lines.append(f"  what to do: {first.suggestion}")
        if width is not None:
            lines = [cut(line, width) for line in lines]
        return "\n".join([*lines, "", str(self)])

    def misses(self) -> dict[str, list[Site]]:
        """The missed sites by their reason."""
        found: dict[str, list[Site]] = {}
        for site in self.sites:
            if not site.fused:
                found.setdefault(site.reason or "", []).append(site)
        return found

    def html(self, *, profile: str | os.PathLike[str] | None = None) -> str:
        """One self-contained page: the sites, the graph around each (where the
        report has it: ``tandem.fuse(..., graph=True)``), and a plot of the tuning
        profile in the file ``profile``."""
        from tandem import _html

        return _html.render(self, profile)


def shorten(location: str) -> str:
    """The node's name, or the end of the place."""
    if location.startswith('"'):
        return location[1:].split('" at ')[0].rstrip('"')
    return location.rsplit("/", 1)[-1]


def cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def format_table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Lines with columns that are aligned."""
    table = [head, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in table
    ]
