"""A process forks while its other threads work: the child is fully usable. It reads and writes Variables, traces, and draws."""
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import lamina as lm

FORKS = 1000 if os.environ.get("LAMINA_TEST_LONG") else 100


def wait(child, seconds=20.0):
    """The child's exit status; None when it hangs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


net = lm.nn.Sequential([lm.nn.Input((8,)), lm.nn.Dense(16, "relu"), lm.nn.Dense(4)])
sgd = lm.optim.Adam(0.01)
shared = lm.Variable(np.zeros(4000, "float32"), name="shared")
x, y = lm.ones((16, 8)), lm.ones((16, 4))


@lm.function
def step(x, y):
    with lm.GradientTape() as tape:
        cost = lm.mean(lm.square(net(x) - y))
    sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
    return cost


@lm.function
def count(v):
    if lm.sum(v) > 0:
        return v + 1
    return v - 1


def train():
    step(x, y)


def write():
    shared.assign(shared + 1.0)


def trace():
    lm.function(lambda a: lm.tanh(a) * 2.0 + 1.0)(x)


def state():
    net.load_state_dict(net.state_dict())


def draw():
    lm.random.normal((100,))


def eager():
    lm.sum(lm.sort(x * 3.0))


WORK = {"train": train, "write": write, "trace": trace, "state": state, "draw": draw, "eager": eager}


@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize("what", [*WORK, "all"])
def test_child_of_a_process_whose_threads_work_is_whole(what):
    train(), write(), trace(), state(), draw(), eager(), count(x)
    works = list(WORK.values()) if what == "all" else [WORK[what]] * 2
    stop, failed = threading.Event(), []

    def run(work):
        try:
            while not stop.is_set():
                work()
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    sys.setswitchinterval(1e-4)
    for thread in threads:
        thread.start()
    hung = wrong = 0
    try:
        for _ in range(FORKS // len(WORK) if what != "all" else FORKS // 2):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for work in WORK.values():
                        work()
                    count(x)
                    value = shared.numpy()
                    code = 0 if (value == value[0]).all() and np.isfinite(net(x).numpy()).all() else 2
                finally:
                    os._exit(code)
            status = wait(child)
            hung += status is None
            wrong += status not in (None, 0)
            if hung > 2:
                break
    finally:
        stop.set()
        sys.setswitchinterval(0.005)
        for thread in threads:
            thread.join()
    assert not failed, failed[0]
    assert (hung, wrong) == (0, 0), f"{hung} children hang, {wrong} fail"


@pytest.mark.filterwarnings("ignore:This process")
def test_fork_inside_of_a_traced_body():
    def body(a):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                out = []  # another thread is not inside the trace
                thread = threading.Thread(target=lambda: out.append(float(lm.function(lambda b: b + 1)(lm.constant(1.0))) + float(shared.read()[0] * 0)))
                thread.start()
                thread.join()
                code = 0 if out == [2.0] else 2
            finally:
                os._exit(code)
        assert wait(child) == 0
        return a * 2

    assert float(lm.function(body, autograph=False)(lm.constant(3.0))) == 6.0
