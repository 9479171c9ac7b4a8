"""lm.distributed's collectives as ops, and data_parallel: what the function means on the whole batch, with the same bits for any number of ranks."""
import re
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm
from lamina import distributed as d
from mpi_jobs import LONG, environment, python_job, why_not

needs_mpi = pytest.mark.skipif(bool(why_not()), reason=why_not())
RANKS = (1, 2, 3, 4, 6, 8) if LONG else (1, 3, 8)

START = """
import hashlib
import numpy as np, lamina as lm
from lamina import distributed as d
me, n = d.rank(), d.size()
def bits(*values):
    return hashlib.sha256(b"".join(np.asarray(v).tobytes() for v in values)).hexdigest()[:16]
"""

# The losses of steps of a net that learns its input, the net, and what explain says of a step.
TRAINED = """
def trained(x, layers, optimizer, steps, **options):
    lm.random.set_seed(4)
    net = lm.nn.Sequential([lm.nn.Dense(x.shape[1], activation="tanh") for _ in range(layers)])
    net(x[:1])
    def step(x):
        with lm.GradientTape() as tape: loss = lm.mean(lm.square(net(x) - x))
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss
    step = d.data_parallel(step, **options)
    return [step(rows) for rows in d.shard([x] * steps)], net, step.explain(next(iter(d.shard([x]))))
"""


def array(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def test_collectives_of_one_rank_leave_values_as_they_are():
    x = array(4, 2)
    for f in (d.all_reduce, d.broadcast, d.reduce_scatter, lambda t: d.send_receive(t, [(0, 0)]), lambda t: d.all_gather(t)[0],
              lambda t: d.all_reduce(lm.stack([t] + [lm.zeros_like(t)] * 7), shards=8)):
        assert np.array_equal(f(x), x) and np.array_equal(lm.function(lambda t: f(t))(x), x)
    assert np.array_equal(d.send_receive(x, []), np.zeros_like(x))
    assert np.array_equal(lm.grad(lambda t: lm.sum(d.all_reduce(t) * t))(x), 2 * x)
    with pytest.raises(lm.errors.InvalidArgument, match="are not pairs of ranks"):
        d.send_receive(x, [(0, 1)])
    with pytest.raises(lm.errors.TypeMismatch, match="the argument 'name' is an int, 3"):
        d.all_gather(x, name=3)


def test_collectives_are_refused_in_files(tmp_path):
    f = lm.function(lambda x: d.all_reduce(x, name="sum"))
    f(array(2))
    with pytest.raises(lm.errors.StateError, match="ranks of a job"):
        lm.save(f, str(tmp_path / "program"))


def test_one_rank_computes_what_the_function_means():
    x, y, w = array(20, 6), array(20, 3), lm.Variable(array(6, 3) * 0.5)

    def losses(x, y, rate):
        with lm.GradientTape() as tape:
            error = lm.square(lm.tanh(x @ w) - y)
            loss = lm.mean(error)
        return loss, lm.max(error, axis=0), lm.sum(error, axis=1) * rate, tape.gradient(loss, w), {"rows": x.shape[0], "sorted": lm.sort(error, axis=0)}

    plain, cut = losses(lm.constant(x), lm.constant(y), 2.0), d.data_parallel(losses)(x, y, 2.0)
    for a, b in zip(plain[:4], cut[:4]):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)
    assert cut[4]["rows"] == 20
    np.testing.assert_allclose(plain[4]["sorted"], cut[4]["sorted"], rtol=1e-6)


def test_explain_says_for_which_ops_rows_are_gathered():
    step = d.data_parallel(lambda x, y: lm.sum(lm.sort(x, axis=0)[0]) + lm.sum(lm.sort(y, axis=1)), shards=4)
    text = step.explain(array(8, 3), array(8, 2))
    assert text.startswith("data parallel: 8 rows in 4 shards on 1 rank\n")
    found = re.findall(r"rows are gathered for (\w+), (\S+) \(\S*test_data_parallel.py:\d+\): it mixes rows", text)
    assert ("sort", "f32[8,3]") in found and ("sort", "f32[8,2]") not in found, text


def test_bad_arguments_are_errors_that_say_what_to_do():
    step = d.data_parallel(lambda x, y: lm.sum(x) + lm.sum(y))
    with pytest.raises(lm.errors.InvalidArgument, match=r"argument 1, f32\[3\] has 3 rows, argument 0, f32\[4,2\] has 4"):
        step(array(4, 2), array(3))
    with pytest.raises(lm.errors.InvalidArgument, match="no argument has rows"):
        step(1.0, 2.0)
    with pytest.raises(lm.errors.InvalidArgument, match="the batch has no rows"):
        step(np.zeros((0, 2), np.float32), np.zeros(0, np.float32))
    with pytest.raises(lm.errors.InvalidArgument, match="in_axes has 1 entries, the function was given 2"):
        d.data_parallel(lambda x, y: x, in_axes=(0,))(array(2), array(2))
    with pytest.raises(lm.errors.InvalidArgument, match="shards 0 is not a whole number"):
        d.data_parallel(lambda x: x, shards=0)
    with pytest.raises(lm.errors.TypeMismatch, match="the argument 'reproducible' is an int, 1"):
        d.data_parallel(lambda x: x, reproducible=1)
    with pytest.raises(lm.errors.TypeMismatch, match="cannot be called"):
        d.data_parallel(3)
    with pytest.raises(lm.errors.InvalidArgument, match="it stands in a function that data_parallel cuts by rows"):
        d.data_parallel(lambda x: d.all_reduce(x))(array(2))
    for devices in ("cpu:0", [3], []):
        with pytest.raises(lm.errors.TypeMismatch, match="which names no devices"):
            d.data_parallel(lambda x: x, devices=devices)
    for call in (lambda: d.send_receive(array(2), 3), lambda: d.send_receive(array(2), [(0, "a")])):
        with pytest.raises(lm.errors.TypeMismatch, match="are not pairs of ranks"):
            call()
    with pytest.raises(lm.errors.TypeMismatch, match="the argument 'root' is a float, 2.5"):
        d.broadcast(array(2), 2.5)
    with pytest.raises(lm.errors.InvalidArgument, match="all_reduce: shards 0 is not a whole number"):
        d.all_reduce(array(2), shards=0)
    assert repr(step) == "<lm.distributed.data_parallel of <lambda>, 0 graphs>"


def test_a_tape_outside_sees_one_rank():
    """With several ranks it is an error: tests/errors/data_parallel.txt."""
    w, x = lm.Variable(array(3)), array(21, 3)
    gradients = []
    for function in (lambda x: lm.mean(x @ w), d.data_parallel(lambda x: lm.mean(x @ w))):
        with lm.GradientTape() as tape:
            loss = function(x)
        gradients.append(tape.gradient(loss, w).numpy())
    np.testing.assert_allclose(*gradients, rtol=1e-6)


def bits_of_ranks(program, folder, ranks=RANKS, seconds=120):
    """What `program` prints after "bits" on rank 0, for each number of ranks."""
    out = {}
    for n in ranks:
        job = python_job(n, START + program, folder=folder, seconds=seconds)
        assert job.code == 0, job.output
        out[n] = re.findall(r"bits (.*)", job.output)
        assert out[n], job.output
    return out


@needs_mpi
def test_a_deep_network_with_statistics_dropout_and_adam_has_the_bits_of_one_process(tmp_path):
    """Also with a last batch that is uneven, and smaller than the number of shards."""
    steps = 1000 if LONG else 6
    said = bits_of_ranks(f"""
lm.random.set_seed(3)
layers = []
for i in range(100): layers += [lm.nn.Dense(64, activation="relu", kernel_initializer="orthogonal")] + [lm.nn.BatchNormalization(), lm.nn.Dropout(0.1)] * (i % 25 == 7)
model = lm.nn.Sequential(layers + [lm.nn.Dense(10)])
adam, loss_of = lm.optim.Adam(1e-3), lm.losses.SparseCategoricalCrossentropy(from_logits=True)
rng = np.random.default_rng(0)
x, y = rng.standard_normal((69, 64)).astype(np.float32), rng.integers(0, 10, 69)
model(x[:2])
@d.data_parallel
def step(x, y):
    with lm.GradientTape() as tape:
        out = model(x, training=True)
        loss = loss_of(y, out)
    adam.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss, lm.mean(lm.equal(lm.argmax(out, axis=1), y).astype("float32"))
data, losses, count = lm.data.Dataset.from_tensor_slices((x, y)).shuffle(69, seed=1).batch(32), [], 0
while count < {steps}:
    for bx, by in d.shard(data):
        losses += step(bx, by)
        count += 1
if me == 0: print(f"bits {{bits(*losses)}} {{bits(*model.variables)}} {{step.trace_count}}", flush=True)
""", tmp_path, seconds=3000 if LONG else 200)
    assert len({tuple(v) for v in said.values()}) == 1, said
    assert said[1][0].endswith(" 2"), "32 and 5 rows: two graphs"


@needs_mpi
def test_random_functions_have_the_bits_of_one_process(tmp_path):
    """Random chains of functions, with a gradient and an update; tests/graph/passes/cut_rows_test.cpp has random graphs over all ops, on threads."""
    said = bits_of_ranks(f"""
import warnings
warnings.simplefilter("ignore")  # some chains end without w
STEPS = [
    lambda x, w: lm.tanh(x @ w),
    lambda x, w: lm.relu(x @ w + 0.1) - 0.5,
    lambda x, w: x - lm.mean(x, axis=0),
    lambda x, w: x / lm.sqrt(lm.var(x, axis=0) + 0.1),
    lambda x, w: lm.dropout(x, 0.3),
    lambda x, w: lm.softmax(x, axis=-1) + x * 0.1,
    lambda x, w: lm.sort(x, axis=0),
    lambda x, w: lm.cumsum(x, axis=1) * 0.5,
    lambda x, w: lm.cumsum(x, axis=0) * 0.1,
    lambda x, w: x * lm.random.normal(x.shape),
    lambda x, w: lm.fori_loop(0, 3, lambda i, h: lm.sin(h @ w), x),
    lambda x, w: lm.cond(lm.sum(x) > 0, lambda: x * 0.5, lambda: lm.cos(x)),
    lambda x, w: lm.where(x > lm.max(x, axis=0) * 0.5, x * 0.5, x),
    lambda x, w: x @ (lm.transpose(x) @ x) * 0.01,
    lambda x, w: lm.reshape(lm.tanh(lm.reshape(x, (x.shape[0] * 2, 3)) @ w[:3, :3]), (x.shape[0], 6)),
    lambda x, w: lm.concat([x[:, 3:], lm.stop_gradient(x[:, :3])], axis=1),
    lambda x, w: lm.checkpoint(lambda h: lm.exp(-lm.square(h @ w)))(x),
]
for seed in range({200 if LONG else 16}):
    rng = np.random.default_rng(seed)
    chain, w = rng.integers(len(STEPS), size=rng.integers(2, 7)), lm.Variable(rng.standard_normal((6, 6)).astype(np.float32) * 0.5)
    x = rng.standard_normal((rng.integers(2, 40), 6)).astype(np.float32)
    lm.random.set_seed(seed)
    def step(x):
        with lm.GradientTape() as tape:
            h = x
            for i in chain: h = STEPS[i](h, w)
            loss = lm.mean(lm.square(h))
        slope = tape.gradient(loss, w)
        if slope is not None: w.assign_sub(0.1 * slope)
        return loss, lm.sum(h, axis=0)
    step = d.data_parallel(step)
    results = [step(batch) for batch in d.shard([x] * 3)]
    if me == 0: print(f"bits {{seed}} {{chain}} {{bits(*[v for pair in results for v in pair], w)}}".replace("\\n", ""), flush=True)
""", tmp_path, ranks=RANKS if LONG else (1, 3, 4), seconds=1000)
    for ranks, lines in said.items():
        assert lines == said[1], [pair for pair in zip(said[1], lines) if pair[0] != pair[1]]
    assert len(said[1]) == (200 if LONG else 16)


@needs_mpi
def test_loops_branches_convolutions_and_embeddings_have_the_bits_of_one_process(tmp_path):
    said = bits_of_ranks("""
lm.random.set_seed(3)
rng = np.random.default_rng(0)
table, w = lm.Variable(rng.standard_normal((11, 4)).astype(np.float32)), lm.Variable(rng.standard_normal((4, 4)).astype(np.float32))
filters = lm.Variable(rng.standard_normal((3, 3, 2, 4)).astype(np.float32))
def last_state(words):
    h = lm.zeros((words.shape[0], 4))
    for t in lm.range(5):
        h = lm.tanh(h @ w + lm.gather(table, words[:, t]))
    return h
def embedding(words):
    with lm.GradientTape() as tape:
        loss = lm.mean(lm.square(last_state(words)))
    return loss, tape.gradient(loss, [table, w])
def images(pictures):
    with lm.GradientTape() as tape:
        y = lm.conv2d(pictures, filters, padding="same")
        y = lm.reshape(y, (pictures.shape[0], -1))
        y = (y - lm.mean(y, axis=0)) / lm.sqrt(lm.var(y, axis=0) + 1e-3)
        loss = lm.mean(lm.logsumexp(y, axis=1))
    return loss, tape.gradient(loss, filters)
def accumulated(x):
    # Gradient accumulation: four parts of the batch, one after the other.
    total, loss = lm.zeros((4, 4)), 0.0
    for part in lm.split(x, 4, axis=1):
        with lm.GradientTape() as tape: loss = lm.mean(lm.relu(part @ w))
        total = total + tape.gradient(loss, w)
    if loss > 0.1: total = total * 2
    return loss, total
words, pictures, x = rng.integers(0, 11, (21, 5)), rng.standard_normal((13, 6, 5, 2)).astype(np.float32), rng.standard_normal((30, 16)).astype(np.float32)
for f, batch in ((embedding, words), (images, pictures), (accumulated, x)):
    mine = next(iter(d.shard([batch])))
    loss, gradients = d.data_parallel(f)(mine)
    plain, wanted = f(lm.constant(batch))
    np.testing.assert_allclose(loss, plain, rtol=1e-5)
    for a, b in zip(gradients, wanted) if isinstance(gradients, list) else [(gradients, wanted)]: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    if me == 0: print(f"bits {bits(loss, *(gradients if isinstance(gradients, list) else [gradients]))}", flush=True)
""", tmp_path)
    assert len({tuple(v) for v in said.values()}) == 1, said
    assert len(said[1]) == 3


@needs_mpi
def test_switches_of_optimizers_have_the_bits_of_one_process(tmp_path):
    """Accumulation, averages, the loss scale, schedules, and rules that came later; what they mean is what they mean on the whole batch."""
    said = bits_of_ranks("""
rng = np.random.default_rng(0)
x, y = rng.standard_normal((21, 5)).astype(np.float32), rng.standard_normal((21, 2)).astype(np.float32)
made = {
    "accumulation": lambda: lm.optim.Adam(0.01, gradient_accumulation_steps=3),
    "average": lambda: lm.optim.SGD(0.05, momentum=0.9, ema_momentum=0.8),
    "loss scale": lambda: lm.optim.Adam(0.01, dynamic_loss_scale=True),
    "schedule": lambda: lm.optim.Nadam(lm.optim.schedules.CosineDecay(0.05, 10)),
    "lion": lambda: lm.optim.Lion(0.01, weight_decay=0.01),
    "both": lambda: lm.optim.RMSprop(0.01, gradient_accumulation_steps=2, ema_momentum=0.5),
}
def trained(make, parallel):
    lm.random.set_seed(4)
    net, own = lm.nn.Sequential([lm.nn.Dense(7, activation="tanh"), lm.nn.Dense(2)]), make()
    net(x[:1])
    def step(x, y):
        with lm.GradientTape() as tape:
            loss = lm.mean(lm.square(net(x) - y))
            scaled = own.scale_loss(loss)
        own.apply_gradients(zip(tape.gradient(scaled, net.trainable_variables), net.trainable_variables))
        return loss
    f = d.data_parallel(step) if parallel else lm.function(step)
    mine = d.shard([(x, y)] * 7) if parallel else [(x, y)] * 7
    losses = [f(a, b) for a, b in mine]
    return losses, net.variables + own.variables
for name, make in made.items():
    losses, variables = trained(make, True)
    plain, wanted = trained(make, False)
    np.testing.assert_allclose(np.stack(losses), np.stack(plain), rtol=1e-4, err_msg=name)
    for a, b in zip(variables, wanted): np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-3, atol=2e-5, err_msg=f"{name}: {a.name}")
    if me == 0: print(f"bits {name} {bits(*losses, *variables)}", flush=True)
""", tmp_path)
    assert len({tuple(v) for v in said.values()}) == 1, said
    assert len(said[1]) == 6


@needs_mpi
def test_lbfgs_linalg_and_ensembles_have_the_bits_of_one_process(tmp_path):
    said = bits_of_ranks("""
rng = np.random.default_rng(0)
x, y = rng.standard_normal((21, 5)), rng.standard_normal(21)
mine = next(iter(d.shard([(x, y)])))
w, own = lm.Variable(np.zeros(5)), lm.optim.LBFGS(history_size=4, tolerance=1e-9)
fitted = d.data_parallel(lambda x, y: tuple(own.minimize(lambda a, b: lm.mean(lm.square(a @ w - b)), [w], x, y)))(*mine)
np.testing.assert_allclose(w.numpy(), np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-7)
if me == 0: print(f"bits lbfgs {bits(w, *fitted)}", flush=True)

a = rng.standard_normal((11, 4, 4)) + 4 * np.eye(4)
b = rng.standard_normal((11, 4, 1))
m = lm.Variable(np.eye(4))
def solved(a, b):
    with lm.GradientTape() as tape:
        s = a @ m
        q = lm.matmul(lm.transpose(s, (0, 2, 1)), s) + lm.eye(4, dtype="float64")
        loss = lm.mean(lm.linalg.solve(s, b)) + lm.mean(lm.linalg.slogdet(s)[1]) + lm.mean(lm.linalg.svdvals(s)) + lm.mean(lm.linalg.cholesky(q)) + lm.mean(lm.linalg.eigvalsh(q))
    return loss, tape.gradient(loss, m)
rows = next(iter(d.shard([(a, b)])))
step = d.data_parallel(solved)
loss, slope = step(*rows)
plain, wanted = solved(lm.constant(a), lm.constant(b))
np.testing.assert_allclose(loss, plain, rtol=1e-10); np.testing.assert_allclose(slope, wanted, rtol=1e-8, atol=1e-10)
assert "rows are gathered" not in step.explain(*rows), step.explain(*rows)[:2000]
if me == 0: print(f"bits linalg {bits(loss, slope)}", flush=True)

lm.random.set_seed(1)
nets = lm.nn.Ensemble(lambda: lm.nn.Sequential([lm.nn.Dense(6, "tanh"), lm.nn.Dropout(0.1), lm.nn.Dense(1)]), 3, learning_rate=[0.01, 0.02, 0.03], input_shape=(5,))
history = nets.fit(x.astype("float32"), y.astype("float32")[:, None], batch_size=8, epochs=3, distribute=True)
if me == 0: print(f"bits ensemble {bits(history['loss'], *nets.models.model.variables)}", flush=True)
""", tmp_path)
    assert len({tuple(v) for v in said.values()}) == 1, said
    assert len(said[1]) == 3


@needs_mpi
def test_sums_by_the_library_are_near_the_trees(tmp_path):
    program = START + TRAINED + """
rng = np.random.default_rng(0)
x = rng.standard_normal((50, 16)).astype(np.float32)
def results(**options):
    losses, net, said = trained(x, 4, lm.optim.SGD(0.1), 5, **options)
    return [v.numpy() for v in losses + net.variables], said
(tree, plain), (library, said) = results(), results(reproducible=False)
for a, b in zip(tree, library): np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
assert "reproducible=False" in said and "reproducible=False" not in plain, said
if d.size() == 3: assert any(not np.array_equal(a, b) for a, b in zip(tree, library)), "the tree has added"
if d.size() > 1:
    try: d.data_parallel(lambda x: lm.mean(x), reproducible=me != 1)(next(iter(d.shard([x]))))
    except lm.errors.RankMismatch as e: assert "with sums by the library" in str(e), e
    else: raise AssertionError("one rank's sums are the library's")
if me == 0: print("near", flush=True)
"""
    for ranks in (1, 2, 3):
        job = python_job(ranks, program, folder=tmp_path)
        assert job.code == 0 and "near" in job.output, job.output


@needs_mpi
def test_buckets_are_exchanged_beside_the_backward_pass_with_the_same_bits(tmp_path):
    job = python_job(3, START + TRAINED + """
rng = np.random.default_rng(0)
x = rng.standard_normal((1536, 128)).astype(np.float32)
def results(buckets):
    own = lm.optim.Adam(0.01)
    losses, net, said = trained(x, 8, own, 4, buckets=buckets)
    return bits(*losses, *net.variables, *own.variables), said
said = {buckets: results(buckets) for buckets in (None, 1, 4, 100)}
if me == 0:
    assert len({own for own, _ in said.values()}) == 1, said
    beside = {buckets: text.count("all_reduce on cpu:0 stream 1") for buckets, (_, text) in said.items()}
    assert beside[1] == 0 and beside[4] >= 3 and beside[100] > beside[4], (beside, said[4][1])
    print("same bits", flush=True)
for wrong, error, said in ((0, lm.errors.InvalidArgument, "from 1 to 4096"), (5000, lm.errors.InvalidArgument, "from 1 to 4096"),
                           (True, lm.errors.TypeMismatch, "'buckets' is a bool"), ("two", lm.errors.TypeMismatch, "'buckets' is a str")):
    try: d.data_parallel(lambda x: x, buckets=wrong)
    except error as e: assert said in str(e), e
    else: raise AssertionError(wrong)
try: d.data_parallel(lambda x: lm.mean(x), buckets=1 + me)(next(iter(d.shard([x]))))
except lm.errors.RankMismatch as e: assert "in 2 buckets" in str(e), e
else: raise AssertionError("other buckets on each rank")
""", folder=tmp_path)
    assert job.code == 0 and "same bits" in job.output, job.output


def test_replicas_on_devices_of_one_process_have_the_bits_of_ranks():
    program = START + """
lm.config.set_virtual_devices("cpu", 3)
rng = np.random.default_rng(0)
x, y = rng.standard_normal((29, 6)).astype(np.float32), rng.standard_normal((29, 3)).astype(np.float32)
def train(devices):
    lm.random.set_seed(2)
    net, adam = lm.nn.Sequential([lm.nn.Dense(8, activation="tanh"), lm.nn.BatchNormalization(), lm.nn.Dropout(0.2), lm.nn.Dense(3)]), lm.optim.Adam(0.01)
    net(x[:1])
    def step(x, y):
        with lm.GradientTape() as tape:
            out = net(x, training=True)
            loss = lm.mean(lm.square(out - y))
        adam.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss, out
    step = d.data_parallel(step, devices=devices)
    results = [step(x, y) for _ in range(4)]
    assert results[0][1].shape == (29, 3), "all rows"
    return bits(*[v for pair in results for v in pair], *net.variables), step.explain(x, y)
one, two, three = train(None), train(["cpu:0", "cpu:1"]), train(["cpu:0", "cpu:1", "cpu:2"])
assert one[0] == two[0] == three[0], (one[0], two[0], three[0])
assert two[1].startswith("data parallel: 29 rows in 8 shards on cpu:0, cpu:1") and "cpu:1" in two[1].split("\\n", 1)[1]
for bad, text in ((["cpu:0"] * 9, "9 devices are more than 8 shards"), (["cpu:7"], "there is no device cpu:7")):
    try: d.data_parallel(lambda x: x, devices=bad)(x)
    except lm.errors.Error as e: assert text in str(e), e
    else: raise AssertionError(text)
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, env=environment())
    assert done.stdout == "done\n", done.stdout + done.stderr


@needs_mpi
def test_fit_trains_on_all_ranks_and_rank_0_prints(tmp_path):
    said = {}
    for ranks in (1, 3):
        job = python_job(ranks, START + """
lm.random.set_seed(5)
rng = np.random.default_rng(0)
x = rng.standard_normal((90, 4)).astype(np.float32)
model = lm.nn.Sequential([lm.nn.Dense(16, activation="relu"), lm.nn.Dropout(0.1), lm.nn.Dense(3)])
model.compile("adam", lm.losses.SparseCrossEntropy(from_logits=True), ["accuracy"])
history = model.fit(x, rng.integers(0, 3, 90), batch_size=32, epochs=2, verbose=2, distribute=True)
if me == 0: print(f"bits {bits(*model.variables)} {history.history}", flush=True)
if me == 1: lm.random.set_seed(6)
if n > 1:
    try: model.fit(x, rng.integers(0, 3, 90), verbose=0, distribute=True)
    except lm.errors.RankMismatch as e: print(f"told {str(e).splitlines()[0]}", flush=True)
""", folder=tmp_path)
        assert job.code == 0, job.output
        said[ranks] = re.findall(r"^bits .*", job.output, re.M)
        assert len(re.findall("Epoch 1/2", job.output)) == 1, job.output
        assert len(re.findall("told fit: 'the state of lm.random' differs between rank 0 and rank 1", job.output)) == (3 if ranks == 3 else 0), job.output
    assert said[1] == said[3] and len(said[1]) == 1, said


@needs_mpi
def test_the_report_of_a_fit_says_in_which_step_it_failed(tmp_path):
    job = python_job(2, START + """
class Fails(lm.nn.Callback):
    def on_epoch_begin(self, epoch): self.epoch = epoch
    def on_train_batch_end(self, batch, logs):
        if me == 1 and self.epoch == 1 and batch == 1: raise ValueError("planted")
net = lm.nn.Sequential([lm.nn.Dense(1)])
net.compile("sgd", "mse")
net.fit(np.ones((20, 3), "float32"), np.ones((20, 1), "float32"), batch_size=8, epochs=3, verbose=0, distribute=True, callbacks=[Fails()])
""", folder=tmp_path)
    assert job.code != 0 and re.search(r"rank 1 \(host \S+, pid \d+\): step 5, last finished collective", job.output), job.output


@needs_mpi
def test_a_callback_of_one_rank_stops_the_fit_of_all(tmp_path):
    said = {}
    for ranks, who in ((1, 0), (3, 2)):
        job = python_job(ranks, START + f"""
class Stops(lm.nn.Callback):
    def __init__(self, epoch, batch): self.at, self.batch = epoch, batch
    def on_epoch_begin(self, epoch): self.epoch = epoch
    def on_train_batch_end(self, batch, logs):
        if (self.epoch, batch) == (self.at, self.batch): self.model.stop_training = True
class StopsAfter(lm.nn.Callback):
    def on_epoch_end(self, epoch, logs): self.model.stop_training = epoch == 1
x = np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)
for callback in (Stops(1, 2), StopsAfter()):
    lm.random.set_seed(5)
    net = lm.nn.Sequential([lm.nn.Dense(8, activation="relu"), lm.nn.Dense(1)])
    net.compile("adam", "mse")
    history = net.fit(x, x[:, :1], batch_size=8, epochs=5, verbose=0, distribute=True, callbacks=[callback] if me == {who} else [])
    print(f"bits {{net.stop_training}} {{int(net.optimizer.iterations)}} {{history.epoch}} {{history.history}} {{bits(*net.variables)}}", flush=True)
""", folder=tmp_path)
        assert job.code == 0, job.output
        said[ranks] = re.findall(r"bits True .*? [0-9a-f]{16}", job.output)  # mpirun may end a rank's line behind the start of another's
    assert len(said[3]) == 6 and set(said[3]) == set(said[1]) and len(set(said[1])) == 2, job.output
    assert said[1][0].startswith("bits True 8 [0, 1] ") and said[1][1].startswith("bits True 10 [0, 1] "), said


@needs_mpi
def test_a_job_that_one_rank_would_do_faster_says_so_once(tmp_path):
    for rows, layers, times in ((8, 1, 1), (4096, 40, 0)):
        job = python_job(2, START + f"""
w = [lm.Variable(np.eye(64, dtype=np.float32)) for _ in range({layers})]
def step(x):
    for layer in w: x = lm.tanh(x @ layer)
    return lm.mean(x)
for f in (d.data_parallel(step), d.data_parallel(lambda x: step(x) * 2)):
    for batch in d.shard([np.ones(({rows}, 64), np.float32)] * 2): f(batch)
""", folder=tmp_path)
        assert job.code == 0, job.output
        found = re.findall(r"lamina: one rank would be faster: by the model a call of step takes (\d+) us on one and (\d+) us on 2 ranks", job.output)
        assert len(found) == times and all(int(one) < int(two) for one, two in found), job.output
        assert "fewer ranks help\n\n" not in job.output


@needs_mpi
def test_ranks_that_disagree_are_told_before_data_moves(tmp_path):
    job = python_job(3, START + """
w = lm.Variable(np.ones(3, np.float32))
said = []
def attempt(name, kind, call):
    try: call()
    except kind as e: said.append(f"{name}: rank {me}: {e}".replace("\\n", " "))
    else: said.append(f"{name}: rank {me}: no error")
rows = next(iter(d.shard([np.ones((10, 3), np.float32)])))
attempt("rows", lm.errors.RankMismatch, lambda: d.data_parallel(lambda x: lm.mean(x @ w))(np.ones((3 + me, 3), np.float32)))
attempt("dtype", lm.errors.RankMismatch, lambda: d.data_parallel(lambda x: lm.mean(x))(rows.astype(np.float64) if me == 1 else rows))
attempt("graph", lm.errors.RankMismatch, lambda: d.data_parallel(lambda x: lm.mean(x @ w * (2.0 if me == 2 else 1.0)))(rows))
attempt("shards", lm.errors.InvalidArgument, lambda: d.data_parallel(lambda x: lm.mean(x @ w), shards=2)(rows))
own = lm.Variable(np.full(3, me, np.float32), name="own")
attempt("values", lm.errors.RankMismatch, lambda: d.data_parallel(lambda x: lm.mean(x @ own))(rows))
said.append(f"done {me} {float(d.data_parallel(lambda x: lm.mean(x @ w))(rows))}")
texts = d.host_all_gather(np.frombuffer("\\n".join(said).encode().ljust(20000), np.uint8)).numpy()
if me == 0: print("\\n".join(row.tobytes().decode().strip() for row in texts), flush=True)
""", folder=tmp_path)
    assert job.code == 0, job.output
    for name, text in {"rows": "rank 0 has 3 of 12 rows, its part is 6", "dtype": r"rank 1 is at all_gather of i64\[1\] 'rows of <lambda>\(f64\[\*,3\]\)'",
                       "graph": r"graph of <lambda>: rank 2 has traced another than rank 0 .* where rank 0 has '.*' \(\S*train.py:\d+\), rank 2 has '.*' \(\S*train.py:\d+\)", "values": "ranks disagree about the Variable 'own': rank 1 has other values than rank 0", "shards": "3 ranks are more than 2 shards"}.items():
        assert len(re.findall(rf"{name}: rank \d: .*{text}", job.output, re.M)) == 3, job.output
    assert len(re.findall(r"done \d 3.0", job.output)) == 3, job.output


@needs_mpi
def test_a_fit_whose_ranks_have_other_data_is_told_before_it_trains(tmp_path):
    """As for frameworks in which each rank passes its own part, and with a shuffle that each rank draws by itself."""
    job = python_job(3, START + """
said = []
def attempt(name, call):
    try: call()
    except lm.errors.RankMismatch as e: said.append(f"{name}: rank {me}: {e}".replace("\\n", " "))
    else: said.append(f"{name}: rank {me}: no error")
x, y = np.random.default_rng(0).normal(size=(24, 3)).astype("float32"), np.arange(24, dtype="float32")[:, None]
net = lm.nn.Sequential([lm.nn.Dense(4), lm.nn.Dense(1)])
net.compile("sgd", "mse")
fit = lambda *data, **more: net.fit(*data, batch_size=12, verbose=0, distribute=True, **more)
before = [v.numpy() for v in net.variables]
attempt("rows", lambda: fit(x[8 * me:8 * me + 8], y[8 * me:8 * me + 8]))
attempt("labels", lambda: fit(x, y + (me == 2)))
class Other:
    def __iter__(self):
        order = np.random.default_rng(me).permutation(24)
        return iter([(x[order], y[order])])
attempt("order", lambda: net.fit(Other(), verbose=0, distribute=True))
lm.random.set_seed(me)
attempt("seed", lambda: fit(x, y))
lm.random.set_seed(1)
nets = lm.nn.Ensemble(lambda: lm.nn.Sequential([lm.nn.Dense(1)]), 2, input_shape=(3,))
attempt("ensemble", lambda: nets.fit(x + me, y, epochs=1, batch_size=12, distribute=True))
fit(x, y, epochs=2)
said.append(f"trained {me}")
texts = d.host_all_gather(np.frombuffer("\\n".join(said).encode().ljust(20000), np.uint8)).numpy()
if me == 0: print("\\n".join(row.tobytes().decode().strip() for row in texts), flush=True)
""", folder=tmp_path)
    assert job.code == 0, job.output
    for name, text in {"rows": "fit: 'array 0 of an epoch's first batch' differs between rank 0 and ranks 1, 2 .*pass the same data on every rank", "labels": "'array 1 of an epoch's first batch' differs between rank 0 and rank 2 ",
                       "order": "'array 0 of an epoch's first batch'", "seed": "fit: 'the state of lm.random' differs .*lm.random.set_seed", "ensemble": "Ensemble.fit: 'array 0"}.items():
        assert len(re.findall(rf"^{name}: rank \d: .*{text}", job.output, re.M)) == 3, job.output
    assert len(re.findall(r"trained \d", job.output)) == 3, job.output


@needs_mpi
def test_whole_batches_in_place_of_a_ranks_rows_are_noticed(tmp_path):
    """16 rows on each of two ranks are a batch of 32: nothing else could tell."""
    for rows, times in (("x", 1), ("next(iter(d.shard([x])))", 0)):
        job = python_job(2, START + f"""
x = np.arange(48, dtype="float32").reshape(16, 3)
double = d.data_parallel(lambda x: x * 2)
for _ in range(3): double({rows})
""", folder=tmp_path)
        assert job.code == 0, job.output
        assert len(re.findall(r"lamina: all ranks have passed the same rows to <lambda> at \S*train.py:\d+; lm.distributed.shard gives", job.output)) == times, job.output
