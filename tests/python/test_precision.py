"""The precision of matrix products: its names, its effect on traces, and that nothing else changes."""
import re

import numpy as np
import pytest
from training_steps import training_step

import lamina as lm

NAMES = ["float32", "tf32", "3xtf32", "bf16"]


@pytest.fixture(autouse=True)
def float32_before_and_after():
    assert lm.config.matmul_precision() == "float32"
    yield
    lm.config.set_matmul_precision("float32")


def test_a_precision_is_set_by_name_and_set_back_by_with():
    for name in NAMES:
        lm.config.set_matmul_precision(name)
        assert lm.config.matmul_precision() == name
        with lm.config.set_matmul_precision("bf16"):
            assert lm.config.matmul_precision() == "bf16"
        assert lm.config.matmul_precision() == name
    with pytest.raises(ZeroDivisionError), lm.config.set_matmul_precision("tf32"):
        1 / 0
    assert lm.config.matmul_precision() == "bf16"


def test_another_name_is_refused_with_the_choices():
    for bad in ("fp16", "TF32", "", "float64", "tf32\0"):
        with pytest.raises(lm.errors.NotFound, match="float32") as e:
            lm.config.set_matmul_precision(bad)
        assert all(name in str(e.value) for name in NAMES)
    for bad in (None, 1, b"tf32"):
        with pytest.raises(TypeError):
            lm.config.set_matmul_precision(bad)
    assert lm.config.matmul_precision() == "float32"


def test_a_function_is_traced_again_under_another_precision():
    f = lm.function(lambda x: lm.matmul(x, x))
    x = lm.constant(np.eye(3, dtype="float32"))
    for name in NAMES + NAMES:
        with lm.config.set_matmul_precision(name):
            f(x)
    assert f.trace_count == 4
    assert f.traces[1]["cause"] == "the precision of matrix products was float32, now tf32" and "set_matmul_precision" in f.traces[1]["fix"]


class Digits(lm.nn.Model):
    def __init__(self, depth=3):
        super().__init__()
        self.hidden = [lm.nn.Dense(16, activation="relu") for _ in range(depth)]
        self.head = lm.nn.Dense(10)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.head(x)


def digits(count=200):
    """Ten noisy patterns of 8 x 8 pixels."""
    random = np.random.default_rng(5)
    patterns = random.random((10, 64))
    y = random.integers(0, 10, count)
    return lm.constant((patterns[y] + 0.2 * random.standard_normal((count, 64))).astype("float32")), lm.constant(y)


def test_training_works_in_every_precision_and_on_the_cpu_equals_float32_bit_for_bit():
    x, y = digits()
    runs = {}
    for name in NAMES:
        with lm.config.set_matmul_precision(name):
            lm.random.set_seed(3)
            net = Digits()
            step = lm.function(training_step(net, lm.optim.Adam(0.01)))
            losses = [step(x, y).item() for _ in range(60)]
            assert losses[-1] < 0.2 * losses[0]
            assert all(v.dtype == lm.float32 for v in net.trainable_variables)
            runs[name] = losses, [v.numpy() for v in net.trainable_variables]
    for losses, weights in runs.values():
        assert losses == runs["float32"][0]
        assert all(np.array_equal(a, b) for a, b in zip(weights, runs["float32"][1]))


@pytest.mark.parametrize("name", NAMES)
def test_every_product_of_a_training_step_has_the_precision_and_a_gpus_section_computes_in_float32(name):
    x, y = digits(20)
    with lm.config.set_matmul_precision(name):
        net = Digits()
        net(x)
        seen = lm.function(training_step(net, lm.optim.SGD(0.1))).explain(x, y, device="null:h100")
    assert len(seen.launches) == 1
    nodes = re.findall(r"^%.* = dense(?:_grad_input|_update)?\(.*", str(seen).split("graph after the passes")[1], re.M)
    assert len(nodes) == 11, "4 layers: each forward, each update, and the gradient of 3 inputs"
    assert all((f"precision={name}" in node) == (name != "float32") for node in nodes), nodes
    steps = "\n".join(seen.launches[0]["details"])
    assert steps.count("dense") > 11 and name not in steps
