"""python -m lamina doctor: what is found, what is missing, and how to install it."""
import io, os, shutil, subprocess, sys

import pytest

import lamina as lm
import lamina.__main__ as command


def said(monkeypatch, available, libraries, needs=()):
    monkeypatch.setattr(lm.cuda, "is_available", lambda: available)
    monkeypatch.setattr(lm.cuda, "why_unavailable", lambda: "" if available else "there is no NVIDIA driver")
    monkeypatch.setattr(lm.cuda, "libraries", lambda: libraries)
    out = io.StringIO()
    return command.doctor(needs, out), out.getvalue()


FOUND = {"name": "cuDNN", "wanted": "libcudnn.so.9", "found": "/lib/libcudnn.so.9", "version": "9.1.0", "why": "", "fix": "", "required": False}
MISSING = {"name": "NCCL", "wanted": "libnccl.so.2", "found": "", "version": "", "why": "libnccl.so.2: no such file; /a/libnccl.so.2: no such file",
           "fix": "pip install nvidia-nccl-cu13", "required": False}


def test_it_runs_as_a_program_on_this_machine():
    run = subprocess.run([sys.executable, "-m", "lamina", "doctor"], capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == "", run.stderr
    assert f"Lamina {lm.__version__}" in run.stdout and "CPU: " in run.stdout
    assert lm.cuda.is_available() or lm.cuda.why_unavailable() in run.stdout
    for library in lm.cuda.libraries():
        assert library["name"] in run.stdout and (library["found"] or library["fix"]) in run.stdout


def test_what_is_found_is_named_with_its_path_and_what_is_missing_with_its_fix(monkeypatch):
    code, text = said(monkeypatch, False, [FOUND, MISSING])
    assert code == 0 and "GPU: none. there is no NVIDIA driver" in text
    assert "cuDNN 9.1.0: found /lib/libcudnn.so.9" in text
    assert "NCCL: missing, wanted libnccl.so.2 (optional)" in text and "fix: pip install nvidia-nccl-cu13" in text
    assert "tried libnccl.so.2: no such file" in text and "tried /a/libnccl.so.2: no such file" in text


def test_a_missing_library_that_has_a_substitute_says_what_runs_instead(monkeypatch):
    text = said(monkeypatch, False, [dict(MISSING, name="cuBLASLt", wanted="libcublasLt.so.13")])[1]
    assert "until then Lamina's own kernels make large matrix products" in text
    assert "until then" not in said(monkeypatch, False, [FOUND, MISSING])[1]


def test_settings_are_shown_and_a_misspelt_one_is_corrected(monkeypatch):
    monkeypatch.setenv("LAMINA_THREAD", "2")
    monkeypatch.setenv("LAMINA_DISABLE", "")
    text = said(monkeypatch, False, [])[1]
    assert "Setting: LAMINA_THREAD is not known; did you mean LAMINA_THREADS?" in text and "Setting: LAMINA_DISABLE=\n" in text


def test_a_gpu_without_what_it_needs_is_a_failure(monkeypatch):
    assert said(monkeypatch, True, [FOUND, MISSING])[0] == 0
    assert said(monkeypatch, True, [FOUND, dict(MISSING, required=True)])[0] == 1


def test_what_is_needed_and_missing_is_a_failure_that_names_it(monkeypatch):
    code, text = said(monkeypatch, True, [FOUND, MISSING], ["gpu", "cuDNN"])
    assert code == 0 and "and needed" not in text
    code, text = said(monkeypatch, True, [FOUND, MISSING], ["gpu", "cuDNN", "NCCL", "cuBLASLt"])
    assert code == 1 and text.endswith("missing, and needed: NCCL, cuBLASLt\n")
    code, text = said(monkeypatch, False, [FOUND], ["gpu", "cuDNN"])
    assert code == 1 and text.endswith("missing, and needed: gpu\n")


STAND_IN = """int cuDriverGetVersion(int* v) { return *v = 13000, 0; }
int ncclGetVersion(int* v) { return *v = 22809, 0; }
unsigned long cublasLtGetVersion(void) { return 130000; }
unsigned long cudnnGetVersion(void) { return 91300; }
"""
ABSENT = next((library for library in lm.cuda.libraries() if not library["found"]), None)


@pytest.mark.skipif(not ABSENT, reason="built without CUDA, or the system has every library, and its own come first")
@pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler")
def test_libraries_of_the_running_interpreters_environment_are_found(tmp_path):
    """Also when nobody has activated it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    packages = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True).stdout.strip()
    folder = os.path.join(packages, "nvidia", "some", "lib")
    os.makedirs(folder)
    (tmp_path / "it.c").write_text(STAND_IN)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", os.path.join(folder, ABSENT["wanted"]), str(tmp_path / "it.c")], check=True)
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "LAMINA_CUDA_LIBRARIES", "LD_LIBRARY_PATH")}
    env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    run = subprocess.run([python, "-m", "lamina", "doctor", "--needs", ABSENT["name"]], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert run.returncode == 0 and f": found {folder}/{ABSENT['wanted']}\n" in run.stdout, run.stdout + run.stderr


def test_other_words_get_the_usage(capsys):
    assert command.main(["doctr"]) == 2 and command.main(["doctor", "gpu"]) == 2 and command.main([]) == 2
    said = capsys.readouterr().err
    assert said.count("usage: python -m lamina") == 2 and "did you mean 'doctor'?" in said
    assert command.main(["--help"]) == 0
    said = capsys.readouterr()
    assert "doctor" in said.out and "info" in said.out and "convert" in said.out and not said.err
