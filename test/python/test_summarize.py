"""test/summarize.py must not turn a failure into a success."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "summarize.py"


def summarize(folder, *failed_suites):
    """Runs the script; returns its exit status and its last line."""
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, *failed_suites],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()[-1]


def write(folder, name, *cases):
    """Writes a JUnit file with test cases of the given inner XML."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    inner = "".join(
        f'<testcase name="{case}" {rest}' for case, rest in cases
    )
    path.write_text(f"<testsuites><testsuite>{inner}</testsuite></testsuites>")


PASSED = "/>"
FAILED = "><failure/></testcase>"
SKIPPED = "><skipped/></testcase>"


def test_adds_up_all_suites(tmp_path):
    write(tmp_path, "lit-plain.xml", ("a", PASSED), ("b", SKIPPED))
    write(tmp_path, "pytest.xml", ("c", PASSED))
    (tmp_path / "format.status").write_text("0\n")
    assert summarize(tmp_path) == (0, "3 passed, 0 failed, 1 skipped")


def test_a_failed_test_fails(tmp_path):
    write(tmp_path, "lit-plain.xml", ("a", PASSED), ("b", FAILED))
    assert summarize(tmp_path) == (1, "1 passed, 1 failed, 0 skipped")


def test_a_failed_check_fails(tmp_path):
    write(tmp_path, "lit-plain.xml", ("a", PASSED))
    (tmp_path / "docs.status").write_text("1\n")
    assert summarize(tmp_path) == (1, "1 passed, 1 failed, 0 skipped")


def test_unit_tests_count_by_their_cases(tmp_path):
    write(tmp_path, "ctest.xml", ("UnitA", PASSED), ("script", PASSED))
    write(tmp_path, "unit/UnitA.xml", ("x", PASSED), ("y", 'status="notrun"/>'))
    assert summarize(tmp_path) == (0, "2 passed, 0 failed, 1 skipped")


def test_a_crash_after_the_last_case_fails(tmp_path):
    write(tmp_path, "ctest.xml", ("UnitA", FAILED))
    write(tmp_path, "unit/UnitA.xml", ("x", PASSED))
    assert summarize(tmp_path) == (1, "1 passed, 1 failed, 0 skipped")


def test_a_crash_without_a_result_file_fails(tmp_path):
    write(tmp_path, "lit-plain.xml", ("a", PASSED))
    assert summarize(tmp_path, "unit tests") == (
        1,
        "1 passed, 1 failed, 0 skipped",
    )


def test_no_test_at_all_fails(tmp_path):
    assert summarize(tmp_path) == (1, "0 passed, 0 failed, 0 skipped")
