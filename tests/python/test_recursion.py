"""Recursions without end, of layers, traced functions and transforms: a typed error, on any thread and with any recursion limit of Python's."""
import copy
import importlib.util
import pickle
import subprocess
import sys

import pytest

import lamina as lm


class Calls(lm.nn.Layer):
    def call(self, x):
        return self.next(x) * 2.0


def ring(length):
    layers = [Calls(name=f"layer_{i}") for i in range(length)]
    for i, layer in enumerate(layers):
        layer.next = layers[(i + 1) % length]
    return layers[0]


def sequential_in_itself():
    net = lm.nn.Sequential([lm.nn.Dense(3)])
    net.add(net)
    return net


@pytest.mark.parametrize("mode, length", [(lambda f: f, 1), (lambda f: f, 3), (lm.function, 2), (lm.grad, 1), (lm.vmap, 2), (lm.checkpoint, 3)])
def test_layers_that_call_themselves_are_an_error_that_names_them(mode, length):
    net = ring(length)
    with pytest.raises(lm.errors.RecursionTooDeep, match="calls itself without end") as error:
        mode(lambda x: lm.sum(net(x)))(lm.ones([2, 3]))
    assert isinstance(error.value, RecursionError) and error.value.why and error.value.fix
    assert all(f"layer_{i}" in str(error.value) for i in range(length))
    assert lm.function(lambda x: x + 1)(lm.ones(2)).tolist() == [2, 2]


def test_layers_inside_themselves_are_listed_saved_and_copied(tmp_path):
    net = ring(2)
    net.w = lm.Variable(3.0)
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert again.next.next is again and [v.item() for v in again.variables] == [3.0] == [v.item() for v in net.variables]
    lm.save_weights(net, tmp_path / "w.safetensors")
    net.trainable = False
    assert net.trainable_variables == [] and net.layers[0].layers == [net] and net.losses == []


class Holds(lm.nn.Model):
    """Holds itself, and a layer that holds it, but does not call them."""

    def __init__(self):
        super().__init__()
        self.dense, self.me = lm.nn.Dense(3), self
        self.inside = lm.nn.Sequential([lm.nn.Dense(2)])
        self.inside.parent, self.all = self, [self, {"me": self}]

    def call(self, x):
        return self.inside(self.dense(x))


def test_models_that_hold_themselves_are_shown_saved_and_trained(tmp_path, capsys):
    x, net = lm.ones([4, 5]), Holds()
    wanted = net(x).tolist()
    assert len(net.variables) == len(net.state_dict()) == 4 and net.count_params() == 26
    net.summary()
    net.plot(tmp_path / "net.svg")
    assert "26 parameters" in capsys.readouterr().out and "26 parameters" in net._repr_html_()
    lm.save(net, tmp_path / "program")
    if importlib.util.find_spec("h5py"):
        lm.nn.save_file(net, tmp_path / "net.keras")
    assert lm.load(tmp_path / "program")(x).tolist() == wanted == lm.function(net)(x).tolist()
    lm.quantize(net, x)
    net.compile("sgd", "mse")
    net.fit(x, lm.ones([4, 2]), verbose=0)
    assert net.losses == [] and net.predict(x).shape == (4, 2)


def test_a_model_inside_itself_is_an_error_of_fit():
    net = sequential_in_itself()
    net.compile("sgd", "mse")
    with pytest.raises(lm.errors.RecursionTooDeep, match="sequential.* calls itself without end"):
        net.fit(lm.ones([4, 3]), lm.ones([4, 3]), verbose=0)


def test_a_traced_function_with_another_signature_each_time_ends():
    @lm.function
    def deeper(x, n):
        return deeper(x, n + 1)

    with pytest.raises(lm.errors.ConversionFailed, match="calls itself more than 100 deep"):
        deeper(lm.ones(2), 0)

    @lm.function
    def power(x, n):
        return x if n == 0 else x * power(x, n - 1)

    assert power(lm.constant(2.0), 10).item() == 2048


def test_a_recursion_of_pythons_own_stays_pythons_error():
    def own(n):
        return own(n + 1)

    with pytest.raises(RecursionError) as error:
        lm.nn.Lambda(lambda x: own(0))(lm.ones(2))
    assert not isinstance(error.value, lm.errors.Error)


PROGRAM = """
import sys, threading
import lamina as lm

sys.setrecursionlimit(50_000)

class Calls(lm.nn.Layer):
    def call(self, x):
        return self(x)

def of_ops(x): return of_ops(x * 2.0) + 1.0
def of_grad(x): return lm.grad(of_grad)(x)
def of_checkpoint(x): return lm.checkpoint(of_checkpoint)(x)
def of_cond(x): return lm.cond(lm.sum(x) > 0.0, lambda: of_cond(x), lambda: x)
def of_vmap(x): return lm.vmap(lambda y: of_vmap(x) * y)(x)
@lm.custom_gradient
def of_custom(x): return of_custom(x), lambda dy: dy
CASES = [Calls(), lm.function(Calls()), of_ops, lm.function(of_ops), of_grad, of_checkpoint, of_cond, lm.function(of_cond), of_vmap, of_custom]

def all():
    for case in CASES:
        try:
            case(lm.ones(3) if case is not of_grad else lm.constant(1.0))
        except (lm.errors.Error, RecursionError) as error:  # Python's where only frames of its own are nested
            print(type(error).__name__)
        assert (lm.ones(2) + 1).tolist() == [2, 2]

threading.stack_size(1 << 19)  # which a recursion fills soon
thread = threading.Thread(target=all)
thread.start()
thread.join()
"""


def test_no_recursion_limit_lets_the_stack_overflow(tmp_path):
    (tmp_path / "deep.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, tmp_path / "deep.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert set(done.stdout.split()) <= {"RecursionTooDeep", "ConversionFailed", "RecursionError"} and len(done.stdout.split()) == 10
