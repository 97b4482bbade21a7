#!/usr/bin/env python3
"""Adds up what the test runners left in a results folder.

usage: summarize.py RESULTS_DIR [FAILED_SUITE...]

Prints one line a suite and, last, "N passed, N failed, N skipped". Exits
non-zero where anything failed, where a suite is named as failed on the command
line, or where no test ran at all.

Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
See LICENSE for license information.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import pathlib
import sys
import xml.etree.ElementTree as ET


def count_xml(path):
    """The (passed, failed, skipped) of a JUnit or GoogleTest file."""
    passed = failed = skipped = 0
    for case in ET.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed += 1
        elif "skipped" in kinds or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_all(results):
    """Yields (suite, counts) for every file in the folder `results`."""
    for path in sorted(results.glob("*.xml")):
        # ctest counts a program as one test; GoogleTest's own files, one a
        # program, count its cases.
        if path.name == "ctest.xml":
            cases = {p.stem for p in results.glob("unit/*.xml")}
            passed = failed = skipped = 0
            for case in ET.parse(path).iter("testcase"):
                name = case.get("name")
                bad = case.find("failure") is not None
                if name in cases:
                    counts = count_xml(results / "unit" / f"{name}.xml")
                    if bad and counts[1] == 0:  # it crashed after its tests
                        counts = (counts[0], 1, counts[2])
                elif case.find("skipped") is not None:
                    counts = (0, 0, 1)
                else:
                    counts = (int(not bad), int(bad), 0)
                passed += counts[0]
                failed += counts[1]
                skipped += counts[2]
            yield "unit", (passed, failed, skipped)
        else:
            yield path.stem, count_xml(path)
    # Checks without a runner leave their exit status.
    for path in sorted(results.glob("*.status")):
        bad = path.read_text().strip() != "0"
        yield path.stem, (int(not bad), int(bad), 0)


def main():
    """Prints the table and returns the exit status."""
    results = pathlib.Path(sys.argv[1])
    failed_suites = sys.argv[2:]
    total = [0, 0, 0]
    for suite, counts in count_all(results):
        print(f"{suite:16} {counts[0]:5} passed {counts[1]:4} failed "
              f"{counts[2]:4} skipped")
        total = [a + b for a, b in zip(total, counts)]
    # A runner that failed without a failed test (it crashed, or a file is
    # missing) must not look like success.
    if failed_suites and total[1] == 0:
        total[1] = len(failed_suites)
    for suite in failed_suites:
        print(f"failed: {suite}")
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or failed_suites or total[0] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
