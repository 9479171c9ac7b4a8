"""data_parallel around and inside of other things: functions, methods, loops, copies; ranks with bad rows; half types."""
import copy
import pickle
import re
import textwrap

import numpy as np
import pytest

import lamina as lm
from mpi_jobs import python_job, why_not

distributed = lm.distributed
jobs = pytest.mark.skipif(bool(why_not()), reason=why_not())


START = """
import warnings
import numpy as np, lamina as lm
from lamina import distributed as d
warnings.simplefilter("ignore")
said = []
"""
# Rank 0 prints what all ranks have said.
END = """
texts = d.host_all_gather(np.frombuffer("\\n".join(said).encode().ljust(20000), np.uint8)).numpy()
if d.rank() == 0:
    print("".join(f"{rank} {line}\\n" for rank, row in enumerate(texts) for line in row.tobytes().decode().strip().split("\\n")), flush=True)
"""


def said_by(ranks, program, folder):
    """{rank: what it said} in a job."""
    job = python_job(ranks, START + textwrap.dedent(program) + END, folder=folder, seconds=120)
    assert job.code == 0, job.output
    out = {}
    for rank, text in re.findall(r"^(\d) (.*)$", job.output, re.M):
        out.setdefault(int(rank), []).append(text)
    return out


@jobs
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_function_around_it_takes_batches_of_all_sizes(ranks, tmp_path):
    program = """
        weight = lm.Variable(0.0)

        @d.data_parallel
        def mean(x):
            weight.assign_add(lm.mean(x))
            return lm.mean(x)

        inner = lm.function(lambda x: mean(x) + 0)
        steps = [lm.function(lambda x: mean(x)), lm.function(lambda x: inner(x) * 1), lm.function(lambda x: lm.fori_loop(0, 2, lambda i, s: s + mean(x) / 2, 0.0))]
        draw = np.random.default_rng(0)
        for rows in [16, 24, 20, 12, 16, *draw.integers(9, 40, 12)]:
            x = np.arange(rows, dtype="float32")
            mine = next(iter(d.shard([x])))
            alone = float(mean(mine))
            said.append(f"{[float(step(mine)) for step in steps] == [alone] * 3 and abs(alone - x.mean()) < 1e-5}")
        said.append(f"{float(weight).hex()} {[step.trace_count for step in steps]}")
    """
    seen = said_by(ranks, program, tmp_path)
    assert sorted(seen) == list(range(ranks)) and len({text[-1] for text in seen.values()}) == 1
    assert all(text == "True" for rank in seen.values() for text in rank[:-1]), seen


@jobs
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_bad_row_of_one_rank_is_an_error_on_all_and_the_next_batch_is_the_same_on_all(ranks, tmp_path):
    program = """
        loss, w = lm.losses.SparseCrossEntropy(from_logits=True), lm.Variable(0.0)

        def of_labels(x, y):
            return lm.mean(loss(y, x[:, None] * lm.ones(3))) + lm.mean(x)

        def of_indices(x, y):
            return lm.mean(lm.gather(lm.ones(3), y) * x) + 1.0986123

        def of_numbers(x, y):
            return lm.mean(lm.check_numerics(lm.where(y == 7, float("nan"), x), "x")) + 1.0986123

        def traced(fn):
            def step(x, y):
                cost = fn(x, y)
                w.assign_add(cost)
                return cost
            return d.data_parallel(step)

        for fn in (of_labels, of_indices, of_numbers):
            for step in (traced(fn), lm.function(traced(fn))):
                before, right = float(w), []
                for k, bad in enumerate([None, 0, None, 11, 5, None, 3, None]):
                    x, y = np.full(12, 10.0 ** k, "float32"), np.zeros(12, "int64")
                    if bad is not None:
                        y[bad] = 7
                    mine = next(iter(d.shard([(x, y)])))
                    try:
                        cost = float(step(*mine))
                        right.append(bad is None and abs(cost - 10.0 ** k - 1.0986123) < 1e-4 * 10.0 ** k)
                    except lm.errors.RankMismatch as error:
                        right.append(str(error))
                    except lm.errors.Error as error:
                        right.append(bad is not None and (("rank " in error.what) == (7 not in mine[1])))
                said.append(f"{fn.__name__} {right} {(float(w) - before):.6g}")
    """
    seen = said_by(ranks, program, tmp_path)
    assert sorted(seen) == list(range(ranks)) and len({str(text) for text in seen.values()}) == 1, seen
    assert len(seen[0]) == 6 and all(f"{[True] * 8} 1.01001e+07" in text for text in seen[0]), seen


@jobs
def test_results_with_rows_are_this_ranks_rows_whatever_the_other_axes_are(tmp_path):
    program = """
        x = np.arange(40, dtype="float32").reshape(5, 8)
        mine = x[:, 4 * d.rank(): 4 * d.rank() + 4]
        f = d.data_parallel(lambda x: (lm.sum(x, axis=0), lm.mean(x, axis=0, keepdims=True), lm.sum(x[:, :, None] * lm.ones(2), axis=0), lm.max(x, axis=0), lm.sum(lm.sum(x, axis=0) ** 2)), in_axes=1)
        *rows, whole = [value.numpy() for value in f(mine)]
        right = [mine.sum(0), mine.mean(0, keepdims=True), np.stack([mine.sum(0)] * 2, 1), mine.max(0)]
        said.append(f"{all((a == b).all() and a.shape == b.shape for a, b in zip(rows, right))} {float(whole) == (x.sum(0) ** 2).sum()}")
    """
    assert said_by(2, program, tmp_path) == {0: ["True True"], 1: ["True True"]}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_added_up_over_rows_of_half_types_is_rounded_once(dtype):
    large = np.r_[np.full(8, 200.0), np.full(8, -200.0)].astype("float32")
    a, b = lm.astype(lm.constant(np.full((16, 1), 200.0, "float32")), dtype), lm.astype(lm.constant(large[:, None]), dtype)
    images, filters = lm.reshape(a, (16, 1, 1, 1)), lm.astype(lm.ones((1, 1, 1, 1)), dtype)

    def of_filter(x, y):
        with lm.GradientTape() as tape:
            tape.watch(filters)
            out = lm.sum(lm.conv2d(x, filters) * lm.reshape(y, (-1, 1, 1, 1)))
        return tape.gradient(out, filters)

    for fn, arguments in ((lambda x, y: lm.transpose(x) @ y, (a, b)), (of_filter, (images, b)), (lambda x, y: lm.sum(x * y, axis=0), (a, b)),
                          (lambda x, y: lm.zeros(2, dtype).at[lm.zeros(x.shape[0], "int32")].add(x[:, 0] * y[:, 0]), (a, b))):
        got, plain = distributed.data_parallel(fn)(*arguments), fn(*arguments)
        assert got.dtype == plain.dtype
        np.testing.assert_array_equal(lm.astype(got, "float32").numpy(), np.zeros(got.shape))


class Trainer(lm.Module):
    def __init__(self):
        super().__init__()
        self.w = lm.Variable(1.0)
        self.go = distributed.data_parallel(self.plain)

    def plain(self, x):
        self.w.assign_add(lm.mean(x))
        return self.w.read()

    @distributed.data_parallel
    def step(self, x):
        """Adds the mean."""
        return self.plain(x)


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_of_an_object_has_a_step_of_its_own(copied, called):
    one, x = Trainer(), np.ones(8, "float32")
    if called:
        one.go(x), one.step(x)
    before, other = float(one.w), copied(one)
    other.go(x), other.step(x)
    assert (float(one.w), float(other.w)) == (before, before + 2)


def test_it_decorates_methods():
    x, one, other = np.arange(8, dtype="float32"), Trainer(), Trainer()
    for _ in range(3):
        one.step(x)
    assert float(one.step(x)) == 1 + 4 * 3.5 and float(other.w) == 1 and one.step.trace_count == 1
    assert Trainer.step.__doc__ == "Adds the mean."


def test_it_is_called_in_loops_and_branches():
    w = lm.Variable([0.0, 0.0])

    @distributed.data_parallel
    def step(x):
        w.assign_add(lm.mean(lm.sort(x, axis=0), axis=0))
        return lm.sum(w)

    @lm.function
    def epoch(x, k):
        for _ in lm.range(k):
            step(x)
        if lm.sum(x) > 0:
            step(x)
        return w.read()

    for rows in (8, 12):
        w.assign([0.0, 0.0])
        np.testing.assert_array_equal(epoch(np.ones((rows, 2), "float32"), lm.constant(3)).numpy(), [4, 4])
    assert "sort" in step.explain(np.ones((8, 2), "float32"))


def test_whole_numbers_of_numpy_are_whole_numbers():
    two = np.int64(1)
    assert distributed.data_parallel(lambda x: lm.sum(x), shards=np.int64(8), buckets=two)(np.ones(8, "float32")).numpy() == 8
    np.testing.assert_array_equal(distributed.broadcast(lm.ones(2), root=np.int64(0)).numpy(), [1, 1])
    np.testing.assert_array_equal(distributed.all_reduce(lm.ones((8, 2)), shards=np.int32(8)).numpy(), [8, 8])
    np.testing.assert_array_equal(distributed.send_receive(lm.ones(2), [(np.int64(0), np.int64(0))]).numpy(), [1, 1])


def test_batches_may_be_lists_as_loaders_give_and_have_none_in_them():
    x, y = np.ones((6, 2), "float32"), np.arange(6)
    for batch in ([x, y], (x, y, None), {"a": x, "b": None}, [x, None]):
        seen = next(iter(distributed.shard([batch])))
        assert type(seen) is type(batch) and len(seen) == len(batch)
        for key in batch if isinstance(batch, dict) else range(len(batch)):
            assert (seen[key] is None) == (batch[key] is None) and (batch[key] is None or (seen[key] == batch[key]).all())
    with pytest.raises(lm.errors.InvalidArgument, match="different numbers of rows"):
        next(iter(distributed.shard([[x, y[:4]]])))


NESTED = """
    @d.data_parallel
    def mean(x): return lm.mean(x * x)
    @d.data_parallel
    def normed(x): return (x - lm.mean(x)) / 3
    def plain_mean(x): return lm.mean(x * x)
    def plain_normed(x): return (x - lm.mean(x)) / 3

    traced = lm.function(lambda x: mean(x) + 1)        # has a graph for a rank's rows and one for a whole batch
    def step(mean, normed, traced):
        def run(x):
            centred = normed(x)
            looped = lm.fori_loop(0, 2, lambda i, s: s + mean(centred), 0.0)
            return mean(x) + traced(x) + looped, centred
        return run
    nested, flat = d.data_parallel(step(mean, normed, traced)), d.data_parallel(step(plain_mean, plain_normed, lambda x: plain_mean(x) + 1))
    for rows in (16, 8, 12, 16):
        x = np.random.default_rng(rows).standard_normal((rows, 3)).astype("float32")
        mine = next(iter(d.shard([x])))
        outside = float(traced(mine))
        (a, b), (e, f) = nested(mine), flat(mine)
        said.append(f"{float(a) == float(e) and np.array_equal(b, f) and outside == float(mean(mine) + 1) == float(traced(mine))}")
"""


@jobs
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_inside_of_another_one_it_is_its_function(ranks, tmp_path):
    assert said_by(ranks, NESTED, tmp_path) == {rank: ["True"] * 4 for rank in range(ranks)}


def test_the_advice_on_retraces_is_about_the_rows_and_at_the_users_line():
    @distributed.data_parallel
    def mean(x):
        return lm.mean(x)

    with pytest.warns(lm.RetraceWarning) as log:
        for rows in range(5, 10):
            mean(np.ones((rows, 2), "float32"))
    assert all("pass batches of one length" in str(w.message) and "lm.constant" not in str(w.message) for w in log)
    assert {w.filename for w in log} == {__file__}


def test_with_options_alone_it_is_a_decorator():
    @lm.distributed.data_parallel(shards=4)
    def mean(x):
        """A mean."""
        return lm.mean(x)

    class Model:
        @lm.distributed.data_parallel(in_axes=1, shards=2)
        def sum(self, x):
            return lm.sum(x, axis=1)

    x = lm.reshape(lm.arange(24.0), (3, 8))
    assert mean.__doc__ == "A mean." and float(mean(x)) == 11.5 and mean.explain(x).startswith("data parallel: 3 rows in 4 shards")
    assert Model().sum(x).numpy().tolist() == [28, 92, 156]
    for wrong in (dict(shards=0), dict(devices="cpu:0"), dict(buckets=0)):
        with pytest.raises(lm.errors.Error, match=f"data_parallel: {next(iter(wrong))} "):
            lm.distributed.data_parallel(**wrong)
