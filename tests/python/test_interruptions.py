"""Fork, Ctrl-C, signals and interpreter shutdown during work: no hangs, no crashes, and the rest stays usable."""
import os, signal, subprocess, sys, textwrap, time

import pytest

REPEATS = 500 if os.environ.get("LAMINA_TEST_LONG") else 4

NET = """
import os, signal, threading, time
import numpy as np, lamina as lm
w = lm.Variable(np.full((64, 64), 0.01, "f4"))
x = lm.constant(np.ones((200, 64), "f4"))
@lm.function
def step():
    with lm.GradientTape() as tape:
        cost = lm.mean(lm.square(lm.relu(x @ w) - 1))
    w.assign_sub(0.001 * tape.gradient(cost, w))
    return cost
step()
"""


def run(program, tmp_path, sent=None):
    """(exit status, output) of a program that prints "ready" and then gets a signal."""
    path = tmp_path / "program.py"
    path.write_text(NET + textwrap.dedent(program))
    process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = ""
    if sent:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(sent)
    try:
        out += process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("it hangs: " + process.communicate()[0])
    return process.returncode, out


@pytest.mark.parametrize("again", range(REPEATS))
def test_a_forked_process_computes_and_its_parent_goes_on(again, tmp_path):
    status, out = run("""
        pid = os.fork()
        for _ in range(20): cost = step()
        if pid == 0: os._exit(0 if np.isfinite(float(cost.numpy())) else 3)
        print("child:", os.waitpid(pid, 0)[1], "parent:", np.isfinite(float(cost.numpy())))
        """, tmp_path)
    assert (status, out) == (0, "child: 0 parent: True\n")


@pytest.mark.parametrize("again", range(REPEATS))
def test_the_interpreter_ends_while_threads_call(again, tmp_path):
    status, out = run("""
        def forever():
            while True: step()
        for _ in range(3): threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.02)
        """, tmp_path)
    assert (status, out) == (0, "")


LOOPS = {
    "many calls": "while True: step()",
    "a loop in a section": "lm.function(lambda v: lm.fori_loop(0, 2_000_000_000, lambda _, u: u * 0.999 + 1, v))(lm.ones([64]))",
    "a while loop in a section": "lm.function(lambda v: lm.while_loop(lambda s: lm.all(s > -1.0), lambda s: s * 0.999 + 1, v))(lm.ones([64]))",
    "a loop of programs": "lm.function(lambda v: lm.fori_loop(0, 2_000_000_000, lambda _, u: lm.sort(u @ u), v))(lm.ones([300, 300]))",
    "a while loop of programs": "lm.function(lambda v: lm.while_loop(lambda s: lm.all(s > -1.0), lambda s: lm.sort(lm.tanh(s @ s)), v))(lm.ones([300, 300]))",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_control_c_ends_what_runs_and_the_function_works_again(loop, tmp_path):
    status, out = run(f"""
        try:
            print("ready", flush=True)
            {LOOPS[loop]}
        except KeyboardInterrupt:
            print("interrupted", np.isfinite(float(step().numpy())))
        """, tmp_path, signal.SIGINT)
    assert (status, out) == (0, "interrupted True\n")


@pytest.mark.parametrize("loop", LOOPS)
def test_sigterm_ends_the_process(loop, tmp_path):
    status, out = run(f"print('ready', flush=True)\n{LOOPS[loop]}", tmp_path, signal.SIGTERM)
    assert (status, out) == (-signal.SIGTERM, "")
