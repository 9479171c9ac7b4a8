"""The counts of ./dev test: a crash, a hang or a missing program must never count as a pass."""
import os, subprocess, sys

from built import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests"))
from run_tests import FUZZ_TARGETS, read_gtest, run_cpp, run_fuzz  # noqa: E402

GOOD = """[ RUN      ] A.Passes
[       OK ] A.Passes (0 ms)
[ RUN      ] A.PassesAfterTalking
half a line[       OK ] A.PassesAfterTalking (3 ms)
[ RUN      ] A.Skips
a_test.cpp:3: Skipped
this machine has a GPU
[  SKIPPED ] A.Skips (0 ms)
"""
BAD = """[ RUN      ] All/A.Fails/2
a_test.cpp:7: Failure
Expected: 1, actual: 2
[  FAILED  ] All/A.Fails/2, where GetParam() = 3 (0 ms)
"""


def test_passes_failures_and_skips_are_counted():
    passed, failures, skipped = read_gtest(GOOD + BAD + "[  FAILED  ] 1 test, listed below:\n[  FAILED  ] All/A.Fails/2, where GetParam() = 3\n", 1)
    assert passed == 2
    assert failures == ["All/A.Fails/2\na_test.cpp:7: Failure\nExpected: 1, actual: 2"]
    assert skipped == ["A.Skips: this machine has a GPU"]


def test_a_test_that_crashes_has_failed():
    passed, failures, _ = read_gtest(GOOD + "[ RUN      ] A.Crashes\nlast words\n", -11)
    assert passed == 2
    assert failures == ["A.Crashes never ended (-11)\nlast words"]


def test_a_failure_outside_of_a_test_is_one():
    assert len(read_gtest(GOOD + "[  FAILED  ] A: SetUpTestSuite or TearDownTestSuite\n", 1)[1]) == 1
    assert len(read_gtest(GOOD + "==1==ERROR: LeakSanitizer: detected memory leaks\n", 23)[1]) == 1


def test_a_missing_program_is_a_failure():
    assert len(run_cpp(os.path.join(ROOT, "build", "no_such_program"), [], 1, 10)[1]) == 1


def test_a_hang_is_a_failure(tmp_path):
    program = tmp_path / "hangs"
    program.write_text("#!/bin/sh\necho '[ RUN      ] A.Hangs'\nexec sleep 60\n")
    program.chmod(0o755)
    assert run_cpp(str(program), [], 1, 1)[1] == ["A.Hangs never ended (stopped after 1 s)\n"]


def test_the_last_line_sums_up_and_the_exit_status_tells(tmp_path):
    for name, text, status in (("good", GOOD, 0), ("bad", GOOD + BAD, 1)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n[ $GTEST_SHARD_INDEX = 0 ] || exit 0\ncat <<'END'\n{text}END\nexit {status}\n")
        program.chmod(0o755)
        run = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "run_tests.py"), "--cpp", str(program)], capture_output=True, text=True)
        assert run.returncode == status
        assert run.stdout.splitlines()[-1] == f"2 passed, {status} failed, 1 skipped"


def fuzz_folder(folder, script):
    for name in FUZZ_TARGETS:
        program = folder / f"lamina_fuzz_{name}"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    return str(folder)


def test_fuzz_targets_pass_by_ending_well_after_inputs(tmp_path, capsys):
    said = "echo '#9 DONE cov: 5600 ft: 7' >&2; echo 'stat::number_of_executed_units: 1200' >&2; echo 'inputs accepted: 34' >&2"
    assert run_fuzz(fuzz_folder(tmp_path, said), 1) == (3, [], [])
    assert "fuzz graphs: 1,200 inputs, 5,600 edges covered, 34 inputs accepted\n" in capsys.readouterr().out
    assert len(run_fuzz(fuzz_folder(tmp_path, "exit 0"), 1)[1]) == 3  # nothing was tried
    assert len(run_fuzz(str(tmp_path / "nothing"), 1)[1]) == 3


def test_a_finding_of_a_fuzz_target_is_printed_with_its_input(tmp_path, monkeypatch):
    monkeypatch.delenv("LAMINA_TEST_LONG", raising=False)  # there seeds are drawn anew
    script = """for a; do case $a in -exact_artifact_path=*) printf hello > "${a#*=}";; -seed=1) echo 'finding: with seed 1' >&2;; esac; done; exit 77"""
    passed, failures, _ = run_fuzz(fuzz_folder(tmp_path, script), 1)
    assert passed == 0 and len(failures) == 3
    assert "fuzz tensors: ended with 77" in failures[0] and "finding: with seed 1" in failures[0]
    assert f"{tmp_path}/found_tensors, as base64: aGVsbG8=" in failures[0]


def test_why_there_are_no_fuzz_targets_is_printed():
    run = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "run_tests.py"), "--no-fuzz", "there is no clang"], capture_output=True, text=True)
    assert "skipped fuzz tensors: there is no clang" in run.stdout and run.stdout.splitlines()[-1] == "0 passed, 0 failed, 3 skipped"
