# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes lib/Export/OpVersions.inc from the onnx package, or compares it.

usage: op_versions.py OpVersions.inc [--write]
"""

import collections
import pathlib
import sys

from onnx import defs

HEAD = """\
// Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The opsets after 7 in which the ops of ai.onnx changed, or came. Written by
// test/Export/Inputs/op_versions.py.
"""


def main():
    path = pathlib.Path(sys.argv[1])
    versions = collections.defaultdict(set)
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version > 7:
            versions[schema.name].add(schema.since_version)
    lines = [f'{{"{name}", {{{", ".join(map(str, sorted(found)))}}}}},\n' for name, found in sorted(versions.items())]
    if "--write" in sys.argv:
        path.write_text(HEAD + "".join(lines))
        return 0
    known = set(path.read_text().splitlines(keepends=True))
    missing = [line for line in lines if line not in known]
    print(*missing, sep="", end="")
    print(f"{len(lines)} ops, opsets up to {defs.onnx_opset_version()}, {len(missing)} not as in the table")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
