# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The words of the command ``tandem``, one a module.

Each has a docstring, ``HELP`` (one line), ``add_arguments(parser)``, and
``run(arguments) -> exit status``. What goes wrong is raised as tandem.Error,
OSError or ValueError. Heavy imports belong into ``run``.
"""
