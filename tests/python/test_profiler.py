"""Ranges as seen by a tool loaded through NVTX_INJECTION64_PATH: tests/nvtx/recorder.cpp."""
import collections
import os
import re
import subprocess
import sys
import textwrap

import pytest

import lamina as lm
from built import BUILD

RECORDER = os.path.join(BUILD, "liblamina_nvtx_recorder.so")
FUNCTION, INSTRUCTION, STEP, LAYER, USER, INPUT = range(1, 7)


class Range:
    def __init__(self, thread, kind, payload, text):
        self.thread, self.kind, self.payload, self.text, self.inside = thread, kind, payload, text, []

    def all(self):
        yield self
        for one in self.inside:
            yield from one.all()


class Record:
    """The ranges of a run. top: the outermost ones; each thread has a stack of its own."""

    def __init__(self, lines):
        self.top, self.registered, self.domains, self.kinds = [], collections.Counter(), {}, {}
        stacks = collections.defaultdict(list)
        for line in lines:
            what, *rest = line.rstrip("\n").split("\t")
            if what == "domain":
                self.domains[rest[0]] = rest[1]
            elif what == "category":
                self.kinds[int(rest[0])] = rest[1]
            elif what == "register":
                self.registered[rest[1]] += 1
            elif what == "push":
                thread, domain, kind, payload, text = rest
                assert self.domains[domain] == "Lamina" and text != "?"
                one = Range(int(thread), int(kind), None if payload == "-" else int(payload), text)
                (stacks[thread][-1].inside if stacks[thread] else self.top).append(one)
                stacks[thread].append(one)
            else:
                assert what == "pop" and stacks[rest[0]], f"{line!r}: nothing is open on that thread"
                stacks[rest[0]].pop()
        self.left_open = [one.text for stack in stacks.values() for one in stack]
        assert not self.left_open, self.left_open

    def all(self):
        for one in self.top:
            yield from one.all()

    def named(self, text):
        return [one for one in self.all() if one.text == text]


@pytest.mark.parametrize("lines", [["push\t0\t7\t5\t-\tx\n"], ["push\t0\t7\t5\t-\tx\n", "pop\t0\t7\n", "pop\t0\t7\n"], ["push\t0\t7\t5\t-\tx\n", "pop\t1\t7\n"], ["push\t0\t7\t5\t-\t?\n", "pop\t0\t7\n"]])
def test_a_record_that_is_not_balanced_is_found(lines):
    with pytest.raises(AssertionError):
        Record(["domain\t7\tLamina\n", *lines])


def run(tmp_path, program, **environment):
    """The finished process of a program, and the recorder's output (None if it was not loaded)."""
    path, record = tmp_path / "train.py", tmp_path / "record.txt"
    path.write_text(textwrap.dedent(program))
    variables = {**os.environ, "NVTX_INJECTION64_PATH": RECORDER, "LAMINA_NVTX_RECORD": str(record), "LAMINA_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=variables, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done, Record(record.read_text().splitlines()) if record.exists() else None


def line_of(program, words):
    """The line of the program with these words: "train.py:12"."""
    lines = textwrap.dedent(program).splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if words in line]
    return f"train.py:{number}"


# 100 layers, as in the benchmark.
NETWORK = """
    import numpy as np
    import lamina as lm

    class Net(lm.nn.Model):
        def __init__(self):
            super().__init__(name="net")
            self.flatten = lm.nn.Flatten(name="flatten")
            self.hidden = [lm.nn.Dense(64, activation="relu", name=f"hidden_{i}") for i in range(100)]
            self.drop = lm.nn.Dropout(0.2, name="drop")
            self.head = lm.nn.Dense(10, name="head")

        def call(self, x):
            x = self.flatten(x)
            for layer in self.hidden: x = layer(x)
            x = self.drop(x)
            return self.head(x)

    loss = lm.losses.SparseCrossEntropy(from_logits=True)

    @lm.function
    def step(x, y):
        with lm.GradientTape() as tape:
            cost = loss(y, net(x, training=True))
        variables = net.trainable_variables
        sgd.apply_gradients(zip(tape.gradient(cost, variables), variables))
        return cost

    images = np.random.default_rng(0).random((20, 28, 28), dtype=np.float32)
    with lm.device(DEVICE):
        net, sgd = Net(), lm.optim.SGD(0.01)
        x, y = lm.constant(images), lm.constant(np.arange(20) % 10)
        for _ in range(5):
            step(x, y)
        lm.synchronize()
"""
HIDDEN = [f"net/hidden_{i}" for i in range(100)]


def layer_lines():
    where = line_of(NETWORK, "for layer in")
    return {**dict.fromkeys(HIDDEN, where), "net/drop": line_of(NETWORK, "self.drop(x)"), "net/head": line_of(NETWORK, "self.head(x)")}


def check_section(section):
    """Checks that its text names every layer with its line."""
    assert section.kind == INSTRUCTION and re.match(r"section of \d+ steps: ", section.text), section.text
    listed = section.text.split(": ", 1)[1].split("; ")
    assert len(set(listed)) == len(listed)
    for layer, line in layer_lines().items():
        assert f"{layer} {line}" in listed, (layer, listed[:5])


def test_every_layer_of_the_benchmark_is_a_range_on_the_cpu(tmp_path):
    _, record = run(tmp_path, NETWORK.replace("DEVICE", '"cpu:0"'))
    assert record.kinds == {FUNCTION: "function", INSTRUCTION: "instruction", STEP: "step", LAYER: "layer", USER: "user", INPUT: "input"}
    calls = record.named("step")
    assert [one.kind for one in calls] == [FUNCTION] * 5 and [one.payload for one in calls] == [0, 1, 2, 3, 4]
    for call in calls:
        assert call in record.top
        (section,) = call.inside
        check_section(section)
        steps = section.inside
        assert {one.kind for one in steps} == {STEP} and all(not one.inside for one in steps)
        assert [one.payload for one in steps] == list(range(len(steps))) and section.text.startswith(f"section of {len(steps)} steps")
        texts = [one.text for one in steps]
        for layer, line in layer_lines().items():
            if "drop" in layer:
                continue
            forward = f"{layer}/dense(matmul, add{'' if 'head' in layer else ', relu'}) {line}"
            assert texts.count(forward) == 1, forward
            updates = [t for t in texts if t.startswith(f"grad/{layer}/dense_update(matmul") and t.endswith(line)]
            assert len(updates) == 1 and "sub" in updates[0], layer
            assert sum(t.startswith(f"grad/{layer}/dense_grad_input(matmul") and t.endswith(line) for t in texts) == ("hidden_0" != layer[4:]), layer
        first = [texts.index(f"{layer}/dense(matmul, add, relu) {layer_lines()[layer]}") for layer in HIDDEN]
        assert first == sorted(first)


def test_every_layer_of_the_benchmark_is_in_the_section_on_the_null_device(tmp_path):
    _, record = run(tmp_path, NETWORK.replace("DEVICE", '"null:h100"'))
    calls = record.named("step")
    assert len(calls) == 5
    for call in calls:
        sections = [one for one in call.inside if one.text.startswith("section of ")]
        assert len(sections) == 1 and not sections[0].inside
        check_section(sections[0])


def test_texts_are_given_to_the_tool_once(tmp_path):
    _, record = run(tmp_path, """
        import lamina as lm
        x = lm.ones((8, 8))
        f = lm.function(lambda x: lm.relu(x @ x) + 1)
        for _ in range(50):
            f(x)
            x + x
    """)
    assert set(record.registered.values()) == {1}, record.registered
    assert len(record.named("<lambda>")) == 50


def test_ranges_of_the_program_lie_around_its_calls(tmp_path):
    _, record = run(tmp_path, """
        import lamina as lm

        @lm.function
        def step(x):
            return lm.sum(lm.tanh(x))

        @lm.profiler.range("evaluate")
        def evaluate(x):
            "its docstring"
            return step(x)

        x = lm.ones(4)
        step(x)
        for _ in range(2):
            with lm.profiler.range("epoch"):
                for _ in range(3):
                    with lm.profiler.range("batch"): step(x)
        evaluate(x)
        assert evaluate.__name__ == "evaluate" and evaluate.__doc__ == "its docstring"
    """)
    epochs = [one for one in record.top if one.text == "epoch"]
    assert len(epochs) == 2 and all(one.kind == USER for one in epochs)
    for epoch in epochs:
        assert [one.text for one in epoch.inside] == ["batch"] * 3
        for batch in epoch.inside:
            assert [one.text for one in batch.inside] == ["step"]
    (evaluate,) = record.named("evaluate")
    assert [one.text for one in evaluate.inside] == ["step"]


def test_tracing_and_compiling_are_ranges_of_the_first_call(tmp_path):
    _, record = run(tmp_path, """
        import lamina as lm
        @lm.function
        def twice(x): return x + x
        for _ in range(3): twice(lm.ones(3))
    """)
    texts = [one.text for one in record.all() if one.kind == FUNCTION]
    assert texts == ["trace twice", "compile twice", "twice", "twice", "twice"]


def test_eager_ops_and_layers_are_ranges(tmp_path):
    _, record = run(tmp_path, """
        import lamina as lm
        layer = lm.nn.Dense(3, activation="tanh", name="readout")
        x = lm.ones((2, 4))
        layer(x)
        with lm.profiler.range("eager"):
            layer(x)
            lm.exp(x)
    """)
    (eager,) = record.named("eager")
    layer, exp = eager.inside
    assert (layer.text, layer.kind) == ("readout", LAYER) and [one.text for one in layer.inside] == ["matmul", "add", "tanh"]
    assert (exp.text, exp.kind) == ("exp", INSTRUCTION)


def test_a_range_inside_a_traced_function_names_its_instructions(tmp_path):
    program = """
        import lamina as lm

        @lm.function
        def f(x, labels):
            with lm.profiler.range("normalize"):
                x = lm.sort(x)
            return x, lm.take(x, labels)

        f(lm.ones(5), lm.constant([1, 2]))
        f(lm.ones(5), lm.constant([1, 2]))
    """
    _, record = run(tmp_path, program)
    assert not record.named("normalize")
    for call in record.named("f"):
        texts = [one.text for one in call.inside]
        assert f"normalize/sort {line_of(program, 'lm.sort')}" in texts, texts
        assert not any(t.startswith("normalize") for t in texts if "sort" not in t)


def test_instructions_inside_of_loops_lie_in_them(tmp_path):
    program = """
        import lamina as lm

        @lm.function
        def f(x, least):
            while lm.sum(x) > least:
                x = lm.sort(x) * 0.5
            return x

        f(lm.ones(8), lm.constant(0.7))
    """
    _, record = run(tmp_path, program)
    (call,) = record.named("f")
    (loop,) = [one for one in call.inside if one.text.startswith("while_loop(")]
    assert "sort, mul" in loop.text and loop.text.endswith(line_of(program, "while"))
    body = [one.text for one in loop.inside]
    assert body.count(f"sort {line_of(program, 'lm.sort')}") == 4, body  # 8, 4, 2, 1
    assert sum(text.startswith("section of") and text.endswith(line_of(program, "while")) for text in body) == 5


def test_each_thread_has_its_own_ranges(tmp_path):
    _, record = run(tmp_path, """
        import threading
        import lamina as lm
        f = lm.function(lambda x: lm.relu(x @ x))
        x = lm.ones((16, 16))
        f(x)
        start = threading.Barrier(6)

        def work(name):
            start.wait()
            for i in range(20):
                with lm.profiler.range(name):
                    with shared: f(x)

        shared = lm.profiler.range("shared")  # one object, entered by all
        threads = [threading.Thread(target=work, args=(f"worker {i}",)) for i in range(6)]
        for t in threads: t.start()
        for t in threads: t.join()
    """)
    seen = set()
    for i in range(6):
        mine = record.named(f"worker {i}")
        assert len(mine) == 20 and len({one.thread for one in mine}) == 1
        seen.add(mine[0].thread)
        for one in mine:
            assert [inner.text for inner in one.inside] == ["shared"]
            assert [inner.text for inner in one.inside[0].inside] == ["<lambda>"]
            assert {inner.thread for inner in one.all()} == {one.thread}
    assert len(seen) == 6


def test_threads_that_share_a_section_each_have_ranges_of_their_steps(tmp_path):
    _, record = run(tmp_path, """
        import lamina as lm
        w = [lm.ones((256, 256)) for _ in range(4)]

        @lm.function
        def forward(x):
            for v in w: x = lm.relu(x @ v)
            return x

        x = lm.ones((512, 256))
        for _ in range(3): forward(x)
    """, LAMINA_THREADS="2")
    by_thread = collections.defaultdict(list)
    for one in record.all():
        if one.kind == STEP and "dense(matmul, relu)" in one.text:
            by_thread[one.thread].append(one.payload)
    assert len(by_thread) == 2, by_thread
    calls = {thread: len(payloads) // 4 for thread, payloads in by_thread.items()}
    assert all(payloads == [0, 1, 2, 3] * calls[thread] for thread, payloads in by_thread.items()), by_thread
    # A worker takes part in the first call; later calls run without it while another process keeps its core busy.
    assert calls[0] == 3 and 1 <= calls[1] <= 3, by_thread


def test_ranges_end_when_an_op_throws(tmp_path):
    done, record = run(tmp_path, """
        import numpy as np
        import lamina as lm

        @lm.function
        def loss(logits, labels):
            return lm.losses.sparse_categorical_crossentropy(labels, lm.relu(logits @ w), from_logits=True)

        @lm.function
        def picky(x):
            lm.check(lm.sum(x) > 0, "not positive")
            return lm.sort(x)

        @lm.function
        def broken(x):
            with lm.profiler.range("inside"):
                raise ValueError("while tracing")

        w = lm.ones((4, 4))
        bad = lm.constant(np.array([0, 9]))
        failed = 0
        for attempt in range(3):
            for call in (lambda: loss(lm.ones((2, 4)), bad), lambda: picky(-lm.ones(3)), lambda: lm.gather(lm.ones(3), lm.constant([7])),
                         lambda: lm.ones(3) + lm.ones(4), lambda: broken(lm.ones(3))):
                try:
                    with lm.profiler.range("attempt"):
                        call()
                except (lm.errors.Error, ValueError):
                    failed += 1
        print("failed", failed)
        with lm.profiler.range("after"):
            loss(lm.ones((2, 4)), lm.constant([0, 1]))
    """)
    assert "failed 15" in done.stdout
    assert len([one for one in record.top if one.text == "attempt"]) == 15
    (after,) = record.named("after")
    assert after in record.top and [one.text for one in after.inside if one.kind == FUNCTION][-1] == "loss"
    assert any("sparse_cross_entropy" in one.text for one in after.all())
    assert not any("inside/" in one.text for one in record.all())


def test_a_library_that_is_no_tool_is_named_and_nothing_else_happens(tmp_path):
    program = """
        import lamina as lm
        with lm.profiler.range("x"): print(lm.exp(lm.zeros(2)).numpy().tolist())
        print(lm.profiler.listening(), lm.profiler.status())
    """
    done, record = run(tmp_path, program, LAMINA_NVTX_REFUSE="1")
    assert record is None and "[1.0, 1.0]" in done.stdout and f"False no tool listens: {RECORDER} does not want this process" in done.stdout
    variables = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    for path, words in (("/nowhere/libtool.so", "/nowhere/libtool.so does not load: "), (os.path.join(BUILD, "python", "lamina", "liblamina.so"), "has no InitializeInjectionNvtx2"), ("", "is not set")):
        done = subprocess.run([sys.executable, str(tmp_path / "train.py")], capture_output=True, text=True, env=dict(variables, NVTX_INJECTION64_PATH=path))
        assert "[1.0, 1.0]" in done.stdout and "False no tool listens: " in done.stdout and words in done.stdout, done.stdout + done.stderr


def test_doctor_says_where_ranges_go(tmp_path):
    variables = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), NVTX_INJECTION64_PATH=RECORDER, LAMINA_NVTX_RECORD=str(tmp_path / "record.txt"))
    said = subprocess.run([sys.executable, "-m", "lamina", "doctor"], capture_output=True, text=True, env=variables).stdout
    assert f"Profiler: ranges go to {RECORDER}; attached: NVTX_INJECTION64_PATH is set" in said


def test_capture_does_nothing_without_a_gpu_and_passes_errors_on():
    if lm.cuda.is_available():
        pytest.skip("there is a GPU: CUDA's own calls are made")
    with lm.profiler.capture() as inside:
        assert isinstance(inside, lm.profiler.capture)
    with pytest.raises(ZeroDivisionError), lm.profiler.capture():
        1 / 0


def test_attached_follows_the_environment(monkeypatch):
    for name in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID", "LAMINA_RESIDENT"):
        monkeypatch.delenv(name, raising=False)
    before = lm.profiler.attached_by()  # a debugger running this test counts
    assert "is set" not in before and lm.profiler.attached() == bool(before)
    monkeypatch.setenv("LAMINA_RESIDENT", "staged")
    assert lm.profiler.attached() and lm.profiler.attached_by() == "LAMINA_RESIDENT=staged"


def test_a_decorated_function_is_converted_where_it_is_traced():
    @lm.profiler.range("sign")
    def sign(x):
        if lm.sum(x) > 0:
            return x
        return -x

    f = lm.function(lambda x: sign(x) * 2)
    assert f(lm.constant([1.0])).numpy().tolist() == [2.0] and f(lm.constant([-1.0])).numpy().tolist() == [2.0] and f.trace_count == 1
    assert repr(lm.profiler.range("a b")) == "lm.profiler.range('a b')"


def test_a_recording_has_every_layer_with_its_time():
    hidden = [lm.nn.Dense(8, activation="relu", name=f"recorded_{i}") for i in range(5)]

    @lm.function
    def forward(x):
        for layer in hidden:
            x = layer(x)
        return x

    x = lm.ones((4, 8))
    forward(x)
    listened = lm.profiler.listening()
    with lm.profiler.record() as record:
        assert lm.profiler.listening()
        for _ in range(3):
            with lm.profiler.range("mine"):
                forward(x)
        lm.exp(x)
    assert lm.profiler.listening() == listened
    ranges = record.ranges
    assert [one.text for one in ranges if one.parent is None] == ["mine"] * 3 + ["exp"]
    steps = [one for one in ranges if one.kind == "step"]
    assert len(steps) == 15 and [one.payload for one in steps] == [0, 1, 2, 3, 4] * 3
    for i, one in enumerate(steps):
        assert one.text.startswith(f"recorded_{i % 5}/dense(matmul, add, relu) test_profiler.py:")
        section = ranges[one.parent]
        call = ranges[section.parent]
        assert section.text.startswith("section of 5 steps: recorded_0 ") and call.text == "forward" and ranges[call.parent].text == "mine"
    for one in ranges:
        assert 0 <= one.begin <= one.end
        if one.parent is not None:
            around = ranges[one.parent]
            assert around.begin <= one.begin and one.end <= around.end and around.thread == one.thread
    table = str(record).splitlines()
    assert len(table) == 1 + len({(one.kind, one.text) for one in ranges})
    assert [line.split()[0] for line in table if "recorded_3/dense" in line] == ["3"]


def test_a_recording_ends_with_its_block_also_by_an_error_and_there_is_one_at_a_time():
    record = lm.profiler.record()
    with pytest.raises(ZeroDivisionError), record:
        with pytest.raises(lm.errors.StateError, match="runs already"), lm.profiler.record():
            pass
        with lm.profiler.range("before the error"):
            1 / 0
    assert [one.text for one in record.ranges] == ["before the error"]
    with lm.profiler.range("around"), lm.profiler.record() as inner:
        lm.exp(lm.ones(2))
    assert "exp" in [one.text for one in inner.ranges] and "around" not in [one.text for one in inner.ranges]
    with record:
        assert str(record) == "the recording still runs: print it after the with block"
    assert record.ranges == []


def test_steps_of_devices_are_recorded_and_added_up():
    @lm.function
    def step(x):
        return lm.sum(lm.tanh(x))

    x = lm.ones(8)
    with lm.profiler.record(device_steps=True) as record:
        step(x)
    if not lm.cuda.is_available():
        assert record.device_steps == [], "the CPU has ranges of its steps"
        assert "inside of launches" not in str(record)
    assert record.ranges
    one = lm.profiler.DeviceStep("dense_1", 0, 1, 7, 0.5, 1.5, 0.75, 0.25)
    record.device_steps = [one, one._replace(text="dense_2", times=4, busy=9.0), one._replace(busy=1.0)]
    lines = str(record).split("\n")
    behind = lines[lines.index("inside of launches on the GPU") + 2:]
    assert [line.split() for line in behind] == [["2", "1.75", "0.50", "dense_1"], ["4", "9.00", "0.25", "dense_2"]]


TRAINED = """
    import lamina as lm

    def build():
        return lm.nn.Sequential([lm.nn.Dense(8, activation="tanh", name="hidden"), lm.nn.Dense(1, name="out")], name="net")

    def step(x, y):
        with lm.GradientTape() as tape:
            cost = lm.mean(lm.square(net(x) - y))
        sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost
"""


@pytest.mark.parametrize("device", ["cpu:0", "null:h100"])
def test_an_ensemble_has_the_ranges_of_one_net(tmp_path, device):
    program = TRAINED + f"""
    with lm.device("{device}"):
        net = lm.nn.stack(build, 4, seeds=[0, 1, 2, 3], input_shape=(3,))
        sgd = lm.optim.SGD(lm.per_model([0.1, 0.2, 0.3, 0.4]))
        train = lm.function(lm.vmap(step, in_axes=None))
        x, y = lm.ones((6, 3)), lm.ones((6, 1))
        for _ in range(2): train(x, y)
        lm.synchronize()
    """
    _, record = run(tmp_path, program)
    line, calls = line_of(program, "cost ="), [one for one in record.named("step") if one.kind == FUNCTION]
    assert [one.payload for one in calls] == [0, 1]
    for call in calls:
        (section,) = call.inside
        assert section.kind == INSTRUCTION and f"stack/net/hidden {line}; stack/net/out {line}" in section.text
        texts = [one.text for one in section.inside]
        if device == "cpu:0":
            assert texts.count(f"stack/net/hidden/dense(matmul, add, tanh) {line}") == 1 and f"stack/net/out/dense(matmul, add) {line}" in texts
            assert all(sum(text.startswith(f"grad/stack/net/{layer}/dense_update(matmul") for text in texts) == 1 for layer in ("hidden", "out"))
        else:
            assert texts == []


def test_a_training_loop_on_the_null_device_is_one_section_for_all_iterations(tmp_path):
    program = TRAINED + """
    with lm.device("null:h100"):
        net, sgd, x, y = build(), lm.optim.SGD(0.1), lm.ones((6, 3)), lm.ones((6, 1))
        net(x)

        @lm.function
        def loop(updates):
            cost = lm.constant(0.0)
            for _ in lm.range(updates):
                cost = step(x, y)
            return cost

        loop(lm.constant(3))
        loop(lm.constant(30))
        lm.synchronize()
    """
    _, record = run(tmp_path, program)
    calls = [one for one in record.named("loop") if one.kind == FUNCTION]
    assert len(calls) == 2
    for call in calls:
        (section,) = call.inside
        assert re.fullmatch(rf"section of \d+ steps: while_loop {line_of(program, 'for _')}", section.text) and not section.inside


def test_a_data_parallel_step_has_the_ranges_of_each_device_and_the_sum_over_them(tmp_path):
    program = TRAINED + """
    lm.config.set_virtual_devices("cpu", 2)
    net, sgd, x, y = build(), lm.optim.SGD(0.1), lm.ones((6, 3)), lm.ones((6, 1))
    net(x)
    parallel = lm.distributed.data_parallel(step, devices=["cpu:0", "cpu:1"])
    for _ in range(2): parallel(x, y)
    """
    _, record = run(tmp_path, program)
    line, calls = line_of(program, "cost ="), [one for one in record.named("step") if one.kind == FUNCTION]
    assert [one.payload for one in calls] == [0, 1]
    for call in calls:
        assert [one.kind for one in call.inside] == [INSTRUCTION] * len(call.inside) and [one.payload for one in call.inside] == list(range(len(call.inside)))
        texts = [one.text for one in call.inside]
        assert "copy" in texts and not any("all_reduce" in text for text in texts), texts
        for layer in ("out", "hidden"):  # the other device's gradient, then the first one's with the sums over all shards
            assert texts.index(f"grad/net/{layer}/dense_update(matmul) {line}") < texts.index(f"grad/net/{layer}/dense_update(matmul, add, add, add, add, add, add) {line}")
    both = [one for one in record.all() if one.text == f"net/hidden/dense(matmul, add, tanh) {line}"]  # of either device's thread
    assert len(both) == 4, both
