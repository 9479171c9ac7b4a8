"""The programs in README.md have ten lines and work."""
import os, re, sys

import pytest
from built import BUILD, ROOT, output_of


def program(language):
    with open(os.path.join(ROOT, "README.md")) as f:
        (text,) = re.findall(rf"```{language}\n(.*?)```", f.read(), re.S)
    assert text.count("\n") == 10
    return text


def expect_fitted(output):
    w, b, graphs = re.search(r"([\d.]+)\D*?([\d.]+)[^:]*: ?(\d+)$", re.sub(r"lm\.Tensor\(([^,]+), shape=\(\), dtype=float32\)", r"\1", output.strip())).groups()
    assert (float(w), float(b), graphs) == (pytest.approx(3, abs=1e-4), pytest.approx(1, abs=1e-4), "1")


def test_the_python_program_fits_the_line(tmp_path):
    (tmp_path / "first.py").write_text(program("python"))
    expect_fitted(output_of(sys.executable, str(tmp_path / "first.py"), env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}))


def test_the_cpp_program_fits_the_line(tmp_path):
    (tmp_path / "first.cpp").write_text(program("cpp"))
    library = os.path.join(BUILD, "python", "lamina")
    output_of("g++", "-std=c++20", "-I", ROOT, "-I", os.path.join(ROOT, "include"), str(tmp_path / "first.cpp"), "-L", library, "-llamina", f"-Wl,-rpath,{library}",
              "-o", str(tmp_path / "first"))
    expect_fitted(output_of(str(tmp_path / "first")))


def test_it_is_short():
    with open(os.path.join(ROOT, "README.md")) as f:
        assert len(f.read().split()) <= 700


def test_what_it_links_to_is_there():
    for name in ("README.md", "ARCHITECTURE.md"):
        with open(os.path.join(ROOT, name)) as f:
            text = f.read()
        for target in re.findall(r"\]\(([^)#:]+)\)", text) + re.findall(r"`((?:runtime|graph|kernels|tests|perf|examples)/[\w./]+)`", text):
            assert os.path.exists(os.path.join(ROOT, target)), f"{name} names {target}"
