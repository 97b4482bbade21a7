# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns models in ONNX's text form into files.

usage: text_to_onnx.py FOLDER: makes NAME.onnx of each NAME.onnxtxt in FOLDER.
"""

import pathlib
import sys

from onnx import parser

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnxtxt")):
    model = parser.parse_model(path.read_text())
    path.with_suffix(".onnx").write_bytes(model.SerializeToString())
