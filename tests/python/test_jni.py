"""The C interface from Java: tests/jni loads a saved program, predicts, trains a step, and gets the bits that Python gets. Run by ./dev test --long, which installs a
JDK with apt-get where there is none."""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
from test_c_interface import HEADER, LIBRARY, Policy

import lamina as lm

HERE = pathlib.Path(__file__).parent.parent / "jni"
pytestmark = pytest.mark.skipif(not os.environ.get("LAMINA_TEST_LONG"), reason="may install a JDK: run with ./dev test --long")


def find_jdk():
    """A folder with bin/javac and include/jni.h; None where there is none."""
    javac = shutil.which("javac")
    homes = [pathlib.Path(os.path.realpath(javac)).parent.parent] if javac else []
    homes += sorted(pathlib.Path("/usr/lib/jvm").glob("*"))
    return next((home for home in homes if (home / "bin" / "javac").exists() and (home / "include" / "jni.h").exists()), None)


@pytest.fixture(scope="module")
def jdk():
    if find_jdk() is None:
        as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
        commands = [[*as_root, "apt-get", "update", "-qq"], [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends",
                                                              "default-jdk-headless"]]
        for command in commands:
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=900)
            except (OSError, subprocess.TimeoutExpired) as problem:
                pytest.skip(f"there is no JDK, and it cannot be installed: {problem}")
        if find_jdk() is None:
            pytest.skip(f"there is no JDK, and apt-get install default-jdk-headless failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return find_jdk()


def line(name, values):
    values = np.asarray(values, "float32")
    return f"{name}{''.join(f' {n}' for n in values.shape)}:{''.join(f' {bits:x}' for bits in values.ravel().view('uint32'))}"


def test_java_predicts_and_trains_with_the_same_bits(jdk, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    policy = Policy()
    lm.save(policy, tmp_path / "policy")
    include = tmp_path / "include" / "lamina"
    include.mkdir(parents=True)
    shutil.copy(HEADER, include)
    folder = os.path.dirname(LIBRARY)
    subprocess.run([jdk / "bin" / "javac", "-d", tmp_path, HERE / "LaminaModule.java", HERE / "Smoke.java"], check=True)
    subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{tmp_path}/include", f"-I{jdk}/include", f"-I{jdk}/include/linux",
                    HERE / "lamina_jni.c", "-o", tmp_path / "liblamina_jni.so", f"-L{folder}", "-llamina", f"-Wl,-rpath,{folder}"], check=True)
    done = subprocess.run([jdk / "bin" / "java", f"-Djava.library.path={tmp_path}", "-Xcheck:jni", "-cp", tmp_path, "Smoke", tmp_path / "policy"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    x, y = lm.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), lm.constant([[1.0], [0.0]])
    expected = [line("before", policy.score(x).numpy()), line("loss", policy.step(x, y)["loss"].numpy()), line("w", policy.w.numpy()), line("after", policy.score(x).numpy())]
    printed = [text for text in done.stdout.splitlines() if not text.startswith("WARNING")]
    assert printed[:4] == expected, done.stdout
    assert len(printed) == 6 and "score" in printed[4] and printed[4].startswith("error: ") and printed[5].startswith("error: load"), done.stdout
