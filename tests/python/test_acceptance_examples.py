"""Small whole programs: typical uses of Lamina, end to end."""
import json, os, re, subprocess, sys

import numpy as np
import pytest

import lamina as lm
from mpi_jobs import Job, why_not

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = bool(os.environ.get("LAMINA_TEST_LONG"))


def digits():
    folder = os.path.join(ROOT, "examples", "data")
    images = lm.data.read_idx(os.path.join(folder, "digits-images-idx3-ubyte.gz"))
    return images.astype("float32") / 255, lm.data.read_idx(os.path.join(folder, "digits-labels-idx1-ubyte.gz")).astype("int32")


@pytest.mark.row("S0-1", "S0-5", "S0-6", "S0-7", "S0-8", "S0-9", "S0-10")
def test_a_training_loop_by_hand_is_the_same_eager_and_traced():
    x, y = digits()
    feed = lm.data.Dataset.from_tensor_slices((x[::10], np.eye(10, dtype="float32")[y[::10]])).batch(50)
    losses, weights = [], []
    for traced in (False, True):
        lm.random.set_seed(1)
        net = lm.nn.Sequential([lm.nn.Input((28, 28)), lm.nn.Flatten(), lm.nn.Dense(32, activation="relu"), lm.nn.Dense(10, activation="softmax")])
        adam = lm.optim.Adam(1e-3)

        def step(bx, by):
            with lm.GradientTape() as tape:
                cost = lm.mean(lm.losses.categorical_crossentropy(by, net(bx)))
            adam.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
            return cost
        if traced:
            step = lm.function(step)
        losses.append([float(sum(step(bx, by) for bx, by in feed)) for _ in range(3)])
        weights.append(net.get_weights())
    assert losses[0][0] > losses[0][1] > losses[0][2] and step.trace_count == 1
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    for a, b in zip(*weights):
        np.testing.assert_allclose(a, b, atol=1e-4)


class Tower(lm.nn.Model):
    def __init__(self, depth=100):
        super().__init__()
        self.flat = lm.nn.Flatten()
        self.stack = [lm.nn.Dense(64, activation="relu", kernel_initializer="he_normal") for _ in range(depth)]
        self.drop = lm.nn.Dropout(0.2)
        self.head = lm.nn.Dense(10)

    def call(self, x):
        x = self.flat(x)
        for layer in self.stack:
            x = layer(x)
        return self.head(self.drop(x))


@pytest.mark.row("S1-34", "S1-35")
def test_a_hundred_layers_are_one_fused_program():
    net, x = Tower(), lm.random.uniform((20, 28, 28))
    eager = net(x).numpy()
    assert net.count_params() == 462730 and len(net.trainable_variables) == 202
    traced = lm.function(net)
    assert np.linalg.norm(traced(x).numpy() - eager) <= 1e-4 * np.linalg.norm(eager) > 0
    graph = traced.get_concrete_function(x)
    assert graph.inspect().optimized.count("dense") == 101 and len(graph.instructions) == 1 and graph.traced_kernels > 200


def test_gradients_of_a_hundred_layers_agree_eager_and_traced():
    net, x, y = Tower(), lm.random.uniform((20, 28, 28)), lm.constant(np.arange(20) % 10)
    net(x)
    cost = lm.losses.SparseCrossEntropy(from_logits=True)

    def gradients(x, y):
        with lm.GradientTape() as tape:
            loss = cost(y, net(x))
        return tape.gradient(loss, net.trainable_variables)
    for a, b in zip(gradients(x, y), lm.function(gradients)(x, y)):
        a, b = a.numpy().astype("float64"), b.numpy()
        assert 0 < np.linalg.norm(a) and np.linalg.norm(a - b) <= 2e-3 * np.linalg.norm(a)


@pytest.mark.row("S2-32", "S2-33")
def test_state_as_an_attribute_made_on_the_first_call():
    class Cell:
        def __init__(self):
            self.b = None

        @lm.function
        def __call__(self):
            if self.b is None:
                self.b = lm.Variable(12.0)
            return lm.constant([[10, 10], [11.0, 1.0]]) + self.b
    c, d = Cell(), Cell()
    assert c().tolist() == d().tolist() == [[22, 22], [23, 13]]
    d.b.assign(0.0)
    assert d().tolist() == [[10, 10], [11, 1]] and c().tolist() == [[22, 22], [23, 13]]


@pytest.mark.row("S0-32", "S0-33", "S1-79")
def test_python_prints_run_while_tracing_only(capsys):
    def noisy(x):
        print("ran")
        return x + 1
    for _ in range(3):
        noisy(lm.ones(2))
    assert capsys.readouterr().out == "ran\n" * 3
    g = lm.function(noisy)
    for _ in range(3):
        g(lm.ones(2))
    assert capsys.readouterr().out == "ran\n"


def run_example(name, *options, **env):
    run = subprocess.run([sys.executable, os.path.join(ROOT, "examples", "python", name), *options], capture_output=True, text=True, env=os.environ | env)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_first_program_fits_its_line():
    slope, offset = map(float, re.search(r"y = (\S+) x \+ (\S+),", run_example("first_program.py")).groups())
    assert abs(slope - 3) < 0.1 and abs(offset - 2) < 0.1


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
def test_cart_and_pole_learns_to_balance_in_one_graph(seed):
    out = run_example("cartpole.py", "--seed", str(seed))
    before, after = (float(re.search(rf"{when} training +(\S+)", out)[1]) for when in ("before", "after"))
    assert before < 120 and after >= 195 and out.rstrip().endswith("1 graph")


def found(pattern, out):
    return tuple(map(float, re.search(pattern, out).groups()))


def test_thirty_two_learning_rates_train_in_one_call_with_the_bits_of_one_alone():
    out = run_example("ensemble.py")
    rows = dict(re.findall(r"learning rate (\S+): training loss +\S+, test accuracy (\S+)", out))
    assert len(rows) == 32 and float(rows["0.0010"]) < 0.5 and float(rows["3.0000"]) < 0.2
    assert found(r"best: learning rate \S+, test accuracy (\S+);", out)[0] > 0.88 and out.endswith("trained alone it has the same bits\n")


def test_a_loop_of_ones_own_reaches_the_loss_of_scikit_learn():
    """1.166: mean of seeds 0 to 4 of scikit-learn 1.9.1, MLPRegressor(hidden_layer_sizes=(64, 64), activation="tanh", max_iter=1000), on the same rows."""
    assert found(r"test error (\S+)", run_example("regression.py"))[0] <= 1.166


def test_a_convolutional_network_reads_digits():
    out = run_example("digits.py")
    assert found(r"test accuracy (\S+),", out)[0] >= 0.97 and "56,714 parameters" in out


def test_a_frozen_encoder_stays_below_two_inputs_and_outputs():
    out = run_example("two_inputs.py")
    assert "104,608 not" in out and "frozen weights unchanged: True" in out
    assert found(r"error of the sum (\S+), accuracy of 'larger' (\S+)", out)[1] > 0.9


def test_a_physics_informed_net_finds_the_oscillation():
    assert found(r"relative L2 error (\S+)", run_example("oscillator.py"))[0] <= 0.02


def test_a_physics_informed_net_finds_the_shock_of_burgers():
    """With --long all iterations, else as many as get near."""
    errors = re.findall(r"relative L2 error (\S+)", run_example("burgers.py", "--iterations", "2000" if LONG else "500"))
    assert float(errors[-1]) <= (0.02 if LONG else 0.2) and float(errors[-1]) < float(errors[0])


def test_proximal_policy_optimisation_solves_cart_pole():
    assert found(r"mean return of 100 episodes (\S+)", run_example("ppo.py"))[0] >= 475


def test_lstms_continue_a_sine_and_copy():
    out = run_example("lstm.py")
    assert found(r"next value (\S+)", out)[0] <= 1e-3 and found(r"copy: (\S+)%", out)[0] >= 99


def test_a_character_gpt_is_better_than_a_bigram_model():
    loss, bigram = found(r"test loss (\S+), a bigram model's (\S+)", run_example("char_gpt.py"))
    assert loss < bigram


def test_a_neural_field_learns_a_picture():
    assert found(r"PSNR (\S+) dB", run_example("neural_field.py"))[0] >= 30


def test_an_ensemble_on_a_table_is_better_than_its_best_member():
    best, together = found(r"best member (\S+), together (\S+)", run_example("tabular.py"))
    assert together < best


def test_the_data_parallel_example_has_the_same_weights_for_any_number_of_processes(tmp_path):
    example = os.path.join(ROOT, "examples", "python", "data_parallel.py")
    said = [run_example("data_parallel.py", "1", LAMINA_THREADS="1")]
    if not why_not():
        said += [Job(ranks, sys.executable, example, "1", folder=tmp_path, seconds=200).output for ranks in ((2, 3, 8) if LONG else (3,))]
    weights = {re.search(r"test accuracy (\S+) with \d ranks?; weights (\w+)", out).groups() for out in said}
    assert len(weights) == 1 and float(next(iter(weights))[0]) > 0.6, said


def test_every_example_is_run_by_a_test():
    tests = "".join(open(os.path.join(ROOT, "tests", "python", name)).read() for name in ("test_acceptance_examples.py", "test_installed.py"))
    for folder, ending in (("python", ".py"), ("cpp", ".cpp")):
        names = [name for name in os.listdir(os.path.join(ROOT, "examples", folder)) if name.endswith(ending)]
        assert names and all(f'"{name.removesuffix(".cpp")}"' in tests for name in names), names


def test_the_training_example_reports_its_figures(tmp_path):
    out = run_example("train_hundred_layers.py", "--epochs", "2", "--json", str(tmp_path / "f.json"), "--plot", str(tmp_path / "curve.png"))
    figures = json.loads((tmp_path / "f.json").read_text())
    assert [key for key in figures if "accuracy" in key] == ["test_accuracy"] and not any(isinstance(v, (dict, list)) for v in figures.values())
    assert 0.5 < figures["test_accuracy"] <= 1 and figures["parameters"] == 462730 and figures["graphs_traced"] == 1
    assert figures["kernels_per_step"] < 10 < figures["kernels_per_step_before_fusion"] and figures["traced_over_floor"] > 0
    assert "test accuracy" in out and "Epoch 2/2" in out and not re.search(r"[\x1b\x08\r]", out) and (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.skipif(not LONG, reason="takes minutes: run with LAMINA_TEST_LONG=1 (./dev test --long)")
@pytest.mark.parametrize("isa", ["", "avx2", "scalar"])
@pytest.mark.parametrize("seed", range(5))
def test_a_hundred_layers_learn_real_digits(tmp_path, seed, isa):
    run_example("train_hundred_layers.py", "--seed", str(seed), "--json", str(tmp_path / "f.json"), "--plot", str(tmp_path / "p.png"), **({"LAMINA_CPU": isa} if isa else {}))
    assert json.loads((tmp_path / "f.json").read_text())["test_accuracy"] >= 0.92
