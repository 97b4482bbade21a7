# Configuration of the lit suites.
#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Substitutions: the tools by their names, %python, %models (ONNX inputs),
#   %tandem_src_root, %tandem_obj_root, %mlir-opt (MLIR's own), %plugin, %host_cc,
#   %tools_dir, %llvm_tools, %runtime_lib (the shared runtime).
# Features: runtime (it was built), onnx-python (the `onnx` package is there), roundtrip and
#   through-plugin (see below), mlir-opt-19 (Debian's mlir-19-tools is there), TandemC
#   (the C library), and one for each tool that was built, by its name.
# Environment: TANDEM_CHECK_ROUNDTRIP=1 makes every fusion-opt also verify that
#   what it reads and what it writes survives printing and parsing.
#   TANDEM_CHECK_PLUGIN=1 replaces every fusion-opt by a stock mlir-opt that loads
#   the plugin, and runs the suites that are about passes; tests that look at
#   what only fusion-opt does say `UNSUPPORTED: through-plugin`.

import os
import subprocess

import lit.formats
from lit.llvm import llvm_config
from lit.llvm.subst import ToolSubst

config.name = "Tandem"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
# The first three are not lit tests; `Inputs` are inputs of tests.
config.excludes = ["unit", "fuzz", "bench", "models", "Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.tandem_obj_root, "test")

tools_dir = config.tandem_tools_dir
llvm_config.with_environment("PATH", config.llvm_tools_dir, append_path=True)
llvm_config.with_environment("PATH", tools_dir, append_path=True)
# A CHECK variable that is not [[$GLOBAL]] ends at the next CHECK-LABEL.
llvm_config.with_environment("FILECHECK_OPTS", "-enable-var-scope")
# Tests run at their full sizes where this is set.
llvm_config.with_system_environment(["TANDEM_TEST_FULL"])


def write_plugin_driver():
    """Writes one command that stands for a fusion-opt through the plugin."""
    path = os.path.join(config.tandem_obj_root, "test", "through-plugin")
    parts = [
        config.tandem_python,
        os.path.join(config.test_source_root, "plugin", "fusion_opt_through_plugin.py"),
        os.path.join(config.llvm_tools_dir, "mlir-opt"),
        os.path.join(config.tandem_obj_root, "lib", "TandemPlugin.so"),
        os.path.join(config.tandem_tools_dir, "fusion-opt"),
    ]
    with open(path, "w", encoding="utf-8") as script:
        script.write("#!/bin/sh\nexec " + " ".join(f"'{p}'" for p in parts) + ' "$@"\n')
    os.chmod(path, 0o755)
    return path


tool_names = [
    "fusion-opt",
    "fusion-translate",
    "fusion-reduce",
    "fusion-lsp-server",
    "fusion-run",
    "fusion-bench",
]
built = [t for t in tool_names if os.path.exists(os.path.join(tools_dir, t))]
for tool in built:
    config.available_features.add(tool)

if os.path.exists(os.path.join(config.tandem_obj_root, "lib", "libTandemC.so")):
    config.available_features.add("TandemC")

verify_roundtrip = os.environ.get("TANDEM_CHECK_ROUNDTRIP", "") not in ("", "0")
if verify_roundtrip:
    config.available_features.add("roundtrip")

plugin = os.path.join(config.tandem_obj_root, "lib", "TandemPlugin.so")
fusion_opt = "fusion-opt"
if os.environ.get("TANDEM_CHECK_PLUGIN", "") not in ("", "0"):
    config.available_features.add("through-plugin")
    fusion_opt = write_plugin_driver()
    # Only these run passes on MLIR.
    suites = ("Bytecode", "Dialect", "Fuse", "Lower", "Pipeline", "Raise", "Restore")
    config.excludes += [
        entry
        for entry in os.listdir(config.test_source_root)
        if os.path.isdir(os.path.join(config.test_source_root, entry))
        and entry not in suites
    ]

tools = [ToolSubst(t, unresolved="ignore") for t in built if t != "fusion-opt"]
tools.append(
    ToolSubst(
        "fusion-opt",
        command=fusion_opt,
        unresolved="fatal",
        extra_args=["--verify-roundtrip"] if verify_roundtrip else [],
    )
)
llvm_config.add_tool_substitutions(tools, [tools_dir])
llvm_config.add_tool_substitutions(
    ["FileCheck", "not", "count", "split-file"], [config.llvm_tools_dir]
)

# Another LLVM's, to see it refuse the plugin.
mlir_opt_19 = os.environ.get("TANDEM_MLIR_OPT_19", "/usr/lib/llvm-19/bin/mlir-opt")
if os.path.exists(mlir_opt_19):
    config.available_features.add("mlir-opt-19")

python = config.tandem_python
config.substitutions += [
    ("%python", f'"{python}"'),
    ("%models", os.path.join(config.test_source_root, "models")),
    ("%tandem_src_root", config.tandem_src_root),
    ("%tandem_obj_root", config.tandem_obj_root),
    ("%mlir-opt-19", mlir_opt_19),
    ("%mlir-opt", os.path.join(config.llvm_tools_dir, "mlir-opt")),
    ("%mlir_lib_dir", config.mlir_lib_dir),
    ("%plugin", plugin),
    (
        "%mini-compiler",
        os.path.join(config.tandem_obj_root, "test/plugin/host/mini-compiler"),
    ),
    ("%host_cc", config.host_cc),
    ("%host_cxx", config.host_cxx),
    ("%tools_dir", tools_dir),
    ("%llvm_tools", config.llvm_tools_dir),
]

runtime_lib = os.path.join(config.tandem_obj_root, "runtime", "libtandem_runtime.so")
config.substitutions.append(("%runtime_lib", runtime_lib))
if os.path.exists(runtime_lib):
    config.available_features.add("runtime")

if python and (
    subprocess.run(
        [python, "-c", "import onnx, numpy, ml_dtypes"], capture_output=True
    ).returncode
    == 0
):
    config.available_features.add("onnx-python")
