# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# cmake -DIN=RAW -DOUT=PAGE -DTITLE=TITLE -DTD=SOURCE -P finish_page.cmake
# Turns what mlir-tblgen writes into a page that a repository's viewer shows
# well: one title, no table-of-contents mark, no blanks at the ends of lines.

file(READ "${IN}" text)
string(REGEX REPLACE "^<!--[^\n]*-->\n+(# [^\n]*\n+)?" "" text "${text}")
string(REPLACE "[TOC]\n\n" "" text "${text}")
string(REGEX REPLACE "[ \t]+\n" "\n" text "${text}")
string(REGEX REPLACE "\n+$" "\n" text "${text}")
file(WRITE "${OUT}"
  "<!-- Written by ./dev docs from ${TD}; edit that. -->\n\n# ${TITLE}\n\n${text}")
