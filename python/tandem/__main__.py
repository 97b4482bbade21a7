# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``python -m tandem`` is the command ``tandem``."""

import sys

from tandem.cli import main

sys.exit(main())
