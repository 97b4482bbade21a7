#!/usr/bin/env python3
# Behaves like fusion-opt, with a stock mlir-opt that loads TandemPlugin.
#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lit suites run this for every fusion-opt where TANDEM_CHECK_PLUGIN=1.

mlir-opt reads its command line before it loads plugins, so a plugin's passes
can be named in --pass-pipeline only: pass flags are put there, in their order.
A model is imported by the real fusion-opt first. The `onnx` dialect is not
registered, hence --allow-unregistered-dialect.

Usage: fusion_opt_through_plugin.py MLIR_OPT PLUGIN FUSION_OPT ARGUMENT...
"""

import os
import subprocess
import sys
import tempfile

# MLIR's own passes that the suites use as flags.
PASSES = {
    "canonicalize",
    "control-flow-sink",
    "convert-scf-to-cf",
    "convert-to-llvm",
    "cse",
    "finalize-memref-to-llvm",
    "inline",
    "loop-invariant-code-motion",
    "one-shot-bufferize",
    "reconcile-unrealized-casts",
    "remove-dead-values",
    "resolve-ranked-shaped-type-result-dims",
    "sccp",
    "symbol-dce",
}


def split(arguments):
    """Returns the pipeline that the flags name, and the other arguments."""
    pipeline, rest = [], []
    for argument in arguments:
        name, _, options = argument.lstrip("-").partition("=")
        if argument.startswith("-") and (
            name.startswith("tandem-") or name in PASSES
        ):
            pipeline.append(f"{name}{{{options}}}" if options else name)
        else:
            rest.append(argument)
    return pipeline, rest


def main():
    mlir_opt, plugin, fusion_opt, *arguments = sys.argv[1:]
    pipeline, rest = split(arguments)
    with tempfile.TemporaryDirectory() as folder:
        models = [a for a in rest if a.endswith(".onnx")]
        if models:
            graph = os.path.join(folder, "graph.mlirbc")
            command = [fusion_opt, models[0], "--pass-pipeline=builtin.module()"]
            status = subprocess.run([*command, "-o", graph]).returncode
            if status:
                return status
            rest[rest.index(models[0])] = graph
            if not pipeline and not any("pass-pipeline" in a for a in rest):
                pipeline.append("tandem-fuse-pipeline")
        if "-o" in rest and rest[rest.index("-o") + 1].endswith(".mlirbc"):
            rest.append("--emit-bytecode")
        if pipeline:
            rest.append(f"--pass-pipeline=builtin.module({','.join(pipeline)})")
        flags = [
            f"--load-dialect-plugin={plugin}",
            f"--load-pass-plugin={plugin}",
            "--allow-unregistered-dialect",
        ]
        rest = [a for a in rest if a != "--allow-unregistered-dialect"]
        return subprocess.run([mlir_opt, *flags, *rest]).returncode


if __name__ == "__main__":
    sys.exit(main())
