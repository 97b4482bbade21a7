#!/usr/bin/env python3
"""Runs the commands in the ```console blocks of a Markdown page.

usage: console.py [--update] PAGE...

Lines that begin with "$ " are commands for bash, those that follow up to the
next command are what it must print (to either stream). A command may go on after a
backslash, and be a here-document of the form <<'END'. The commands of a page
share one shell in an empty folder, where `models` is test/models, and the tools
are on the PATH and Python finds our package. With --update, what they print now replaces what the page says.

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = "=====next command====="


def in_document(command):
    """Whether the command ends within a here-document, closed by END."""
    return "<<'END'" in command and not command.endswith("\nEND")


def parse(text):
    """Splits a page into its lines; those of console blocks are replaced by
    pairs (command, lines of output)."""
    parts, inside = [], False
    for line in text.splitlines():
        last = parts[-1] if parts and isinstance(parts[-1], tuple) else None
        # A command may go on in the next line, or hold a here-document.
        if last and not last[1] and (last[0].endswith("\\") or in_document(last[0])):
            parts[-1] = (f"{last[0]}\n{line}", [])
        elif line.startswith("```"):
            inside = line == "```console"
            parts.append(line)
        elif inside and line.startswith("$ "):
            parts.append((line[2:], []))
        elif inside and last:
            last[1].append(line)
        else:
            parts.append(line)
    return parts


def environment():
    """This process's, with the Python package of the source and the build."""
    tool = shutil.which("fusion-opt")
    if tool is None:
        return None
    build = pathlib.Path(tool).parents[1]
    return dict(
        os.environ,
        PYTHONPATH=str(ROOT / "python"),
        PYTHONDONTWRITEBYTECODE="1",
        TANDEM_LIBRARY_PATH=f"{build}/lib:{build}/runtime",
    )


def run(commands):
    """What each of the commands prints, as lists of lines."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "models").symlink_to(ROOT / "test/models")
        script = "\n".join(f"{command}\necho '{MARK}'" for command in commands)
        done = subprocess.run(
            ["bash"],
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            text=True,
            env=environment(),
            check=False,
        )
    outputs = done.stdout.split(f"{MARK}\n")
    return [output.splitlines() for output in outputs[: len(commands)]]


def refresh(text):
    """The page `text` with what its commands print now."""
    parts = parse(text)
    outputs = iter(run([p[0] for p in parts if isinstance(p, tuple)]))
    lines = []
    for part in parts:
        if isinstance(part, tuple):
            lines += [f"$ {part[0]}", *next(outputs)]
        else:
            lines.append(part)
    return "\n".join(lines) + "\n"


def main():
    """Checks or updates the pages; returns the exit status."""
    arguments = sys.argv[1:]
    update = "--update" in arguments
    status = 0
    for name in arguments:
        if name == "--update":
            continue
        page = pathlib.Path(name)
        old = page.read_text()
        new = refresh(old)
        if new != old:
            print(f"{name}: {'updated' if update else 'differs'}")
            if update:
                page.write_text(new)
            else:
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
