"""Random programs with control flow, state and effects, traced against eager: see random_programs.py."""
import os, pathlib, subprocess, sys

import pytest

import lamina as lm
import random_programs

LONG = bool(os.environ.get("LAMINA_TEST_LONG"))
COUNT = 10_000 if LONG else 24


@pytest.mark.parametrize("first", range(0, COUNT, COUNT // 8))
def test_random_programs_do_the_same_traced(first):
    for seed in range(first, first + COUNT // 8):
        assert random_programs.check(seed) == ""


def test_random_programs_on_two_devices():
    count = 200 if LONG else 4
    program = pathlib.Path(random_programs.__file__)
    run = subprocess.run([sys.executable, str(program), "100000", str(count), "2"], capture_output=True, text=True)
    assert run.returncode == 0 and "2 devices: 0 differ" in run.stdout, run.stdout + run.stderr


def test_every_pass_is_left_out_in_turn():
    with pytest.raises(lm.errors.NotFound) as info:
        os.environ["LAMINA_DISABLE"] = "no_such_pass"
        try:
            lm.function(lambda x: x + 1)(lm.constant(1.0))
        finally:
            del os.environ["LAMINA_DISABLE"]
    assert set(info.value.why.removeprefix("there are: ").split(", ")) == set(random_programs.PASSES)


def test_a_program_that_fails_is_made_smaller():
    statements = random_programs.Writer(7).program()
    wanted = [line for line in random_programs.text_of(statements) if " = " in line][-1].strip()
    small = random_programs.shrink(statements, lambda s: any(wanted == line.strip() for line in random_programs.text_of(s)))
    assert [line.strip() for line in random_programs.text_of(small)] == [wanted]
