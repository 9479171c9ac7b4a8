"""Error messages of wrong programs: whole texts, compared exactly with tests/errors/programs.txt.

The file has programs, each "== title", its lines, "--", and the class and text of its final error. Every program starts with "import lamina
as lm" on line 1, so its first line is line 2.
"""
import os, pathlib, runpy, warnings

import pytest

import lamina as lm

FILE = pathlib.Path(__file__).parent.parent / "errors" / "programs.txt"
CASES = [case.split("\n--\n") for case in FILE.read_text().split("\n== ")[1:]]
PROGRAMS = {head.partition("\n")[0]: (head.partition("\n")[2], text.rstrip("\n")) for head, text in CASES}


def outcome(program, folder):
    """The class and text of the program's error, without its folder and the state of this machine's GPU."""
    path = folder / "program.py"
    path.write_text("import lamina as lm\n" + program + "\n")
    before = os.getcwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runpy.run_path(str(path))
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace(str(folder) + os.sep, "").replace(lm.cuda.why_unavailable() or "-", "(why there is no GPU)").replace(f" and {len(dir(lm)) - 24} more", " and (others) more")
    finally:
        os.chdir(before)
        lm.config.run_functions_eagerly(False)
    return "nothing was raised"


@pytest.mark.parametrize("title", PROGRAMS)
def test_what_a_wrong_program_says(title, tmp_path):
    program, text = PROGRAMS[title]
    if title == "a device that is not there" and lm.cuda.is_available():
        pytest.skip("gpu:0 is there")
    assert outcome(program, tmp_path) == text


def test_there_are_enough_of_them():
    assert len(PROGRAMS) == len(CASES) >= 160

