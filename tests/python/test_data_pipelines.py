"""Pipelines of datasets: threads that read ahead, order, errors with the item's number, positions, and sources of data."""
import os, subprocess, sys, threading, time, warnings

import numpy as np
import pytest

import lamina as lm

Dataset, AUTOTUNE = lm.data.Dataset, lm.data.AUTOTUNE


def values(dataset):
    return [t.numpy().tolist() for t in dataset]


@pytest.mark.row("S3-19", "S3-20")
def test_threads_keep_the_order_and_bound_what_is_read_ahead():
    lock, now, most, begun = threading.Lock(), [0], [0], []

    def load(i):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            begun.append(int(i))
        time.sleep(0.002 * (int(i) % 3))
        with lock:
            now[0] -= 1
        return np.float32(i) * 2

    feed = lm.data.host_map(Dataset.range(60), load, lm.float32, parallel=4)
    seen = []
    for t in feed:
        seen.append(float(t))
        if len(seen) == 3:
            time.sleep(0.1)
            assert len(begun) <= 3 + 8 + 4  # taken; done or in work; and those that began since
    assert seen == [2.0 * i for i in range(60)] and 1 < most[0] <= 4


@pytest.mark.parametrize("make", [
    lambda d, f: d.host_map(f), lambda d, f: d.host_map(f, parallel=5), lambda d, f: d.host_map(f).prefetch(3), lambda d, f: d.prefetch().host_map(f, parallel=AUTOTUNE).prefetch(),
    lambda d, f: d.host_map(f).cache(), lambda d, f: Dataset.zip(d, d).host_map(lambda a, b: f(a)),
], ids=["alone", "threads", "prefetch", "both", "cache", "zip"])
def test_every_form_gives_the_same_elements_each_time(make):
    feed = make(Dataset.range(23), lambda i: np.array([i, i * i])).batch(4)
    want = [[[i, i * i] for i in range(b, min(b + 4, 23))] for b in range(0, 23, 4)]
    assert values(feed) == want and values(feed) == want and len(feed) == 6


@pytest.mark.row("S3-20")
def test_a_cached_dataset_reads_once():
    calls = []
    feed = Dataset.range(5).host_map(lambda i: calls.append(int(i)) or i).cache()
    next(iter(feed))  # a loop that stops early keeps nothing
    assert calls == [0]
    assert values(feed) == values(feed) == list(range(5)) and calls == [0, *range(5)]


def test_structures_pass_through():
    x = np.arange(6, dtype="float32").reshape(3, 2)
    feed = Dataset.from_tensor_slices({"x": x, "y": (np.arange(3), x)})
    out = list(feed.host_map(lambda d: (d["x"] + 1, {"n": d["y"][0]}), (lm.float64, {"n": lm.int32})).batch(2))
    assert isinstance(out[0], tuple) and out[0][0].dtype == lm.float64 and out[0][1]["n"].dtype == lm.int32 and out[1][0].shape == (1, 2)
    assert np.array_equal(out[0][0].numpy(), x[:2] + 1)
    pair, number = next(iter(Dataset.zip(feed.map(lambda d: (d["x"], d["y"][0])), Dataset.range(9))))
    assert pair[0].shape == (2,) and int(number) == 0 and len(Dataset.zip((feed, Dataset.range(9)))) == 3
    with pytest.raises(ValueError, match="2 dtypes for 1"):
        next(iter(feed.host_map(lambda d: d["x"], (lm.float32, lm.float32))))
    with pytest.raises(ValueError, match="(?s)structure.*item 1 of host_map"):
        list(Dataset.range(2).host_map(lambda i: i if i == 0 else (i, i)))


def test_map_is_traced_and_runs_in_threads():
    traces = []

    def square(i):
        traces.append(1)
        return i * i, lm.astype(i, "float32") / 2

    out = list(Dataset.range(20).map(square, parallel=3))
    assert [(int(a), float(b)) for a, b in out] == [(i * i, i / 2) for i in range(20)] and len(traces) <= 3


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("ahead", [False, True])
def test_an_error_comes_at_its_step_with_the_number_of_the_item(parallel, ahead):
    def load(i):
        if i == 7:
            raise KeyError("no such picture")
        if i == 9:
            raise lm.errors.NotFound("none", where="here", why="so", fix="that")
        return i

    feed = Dataset.range(12).host_map(load, parallel=parallel)
    elements = iter((feed.prefetch(2) if ahead else feed)._core)
    assert [int(next(elements)[0]) for _ in range(7)] == list(range(7))
    with pytest.raises(KeyError) as e:
        next(elements)
    assert e.value.args == ("no such picture",) and e.value.__notes__ == ["in item 7 of host_map"] and "load" in [entry.name for entry in e.traceback]
    assert int(next(elements)[0]) == 8
    with pytest.raises(lm.errors.NotFound, match="item 9 of host_map, here"):
        next(elements)
    assert [int(t[0]) for t in elements] == [10, 11]


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_loop_goes_on_after_an_element_that_raises(parallel):
    def load(i):
        if i in (0, 3):
            raise OSError("bad file")
        return i

    feed = Dataset.range(6).host_map(load, parallel=parallel)
    for _ in range(2):
        elements, got = iter(feed), []
        while True:
            try:
                got.append(int(next(elements)))
            except OSError:
                got.append(None)
            except StopIteration:
                break
        assert got == [None, 1, 2, None, 4, 5] and next(elements, "over") == "over" and iter(elements) is elements


def test_errors_of_other_steps_name_the_item():
    with pytest.raises(ZeroDivisionError) as e:
        list(Dataset.range(5).filter(lambda i: 1 // (int(i) - 3)))
    assert e.value.__notes__ == ["in item 3 of filter"]

    def three():
        yield 1
        yield 2
        raise OSError("the socket is closed")

    elements = iter(Dataset.from_generator(three))
    assert [int(next(elements)), int(next(elements))] == [1, 2]
    with pytest.raises(OSError, match="socket") as e:
        next(elements)
    assert e.value.__notes__ == ["in item 2 of the generator"]
    with pytest.raises(TypeError, match="(?s)item 0 of interleave|interleave.*no Dataset"):
        list(Dataset.range(3).interleave(lambda i: [i]))
    ragged = Dataset.range(4).host_map(lambda i: np.zeros(1 + int(i) // 2))
    with pytest.raises(ValueError, match="padded_batch"):
        list(ragged.batch(3))
    with pytest.raises(TypeError, match="dtype"):
        list(Dataset.range(4).host_map(lambda i: np.float32(i) if i else np.int32(i)).batch(3))


def test_which_elements():
    d = Dataset.range(10)
    assert values(d.take(3)) == [0, 1, 2] and values(d.skip(7)) == [7, 8, 9] and values(d.skip(11)) == [] and values(d.take(0)) == []
    assert len(d.take(99)) == 10 and len(d.skip(4)) == 6 and len(d.repeat().take(25)) == 25 and values(d.repeat().skip(9).take(3)) == [9, 0, 1]
    even = d.filter(lambda i: int(i) % 2 == 0)
    assert values(even.batch(2)) == [[0, 2], [4, 6], [8]]
    with pytest.raises(TypeError, match="not known"):
        len(even)
    with pytest.raises(TypeError, match="for ever"):
        len(even.repeat())
    rows = Dataset.from_tensor_slices(np.arange(10))
    assert values(rows.skip(2).take(5).batch(3)) == [[2, 3, 4], [5, 6]] and values(rows.batch(3).take(2)) == [[0, 1, 2], [3, 4, 5]]
    calls = []
    assert values(d.host_map(lambda i: calls.append(int(i)) or i).skip(8)) == [8, 9] and calls == [8, 9]
    with pytest.raises(lm.errors.InvalidArgument, match="count"):
        d.take(-1)
    for bad in (2.5, True):
        with pytest.raises(lm.errors.TypeMismatch, match="'count' is a"):
            d.take(bad)


def test_interleave_takes_turns():
    def block(i):
        return Dataset.range(int(i)).host_map(lambda k: 10 * int(i) + k)

    order = values(Dataset.from_tensor_slices([2, 1, 3, 2]).interleave(block, 2, 1))
    assert order == [20, 10, 21, 30, 20, 31, 21, 32]
    assert values(Dataset.from_tensor_slices([3, 3]).interleave(block, 2, 2)) == [30, 31, 30, 31, 32, 32]
    assert values(Dataset.from_tensor_slices([0, 2, 0]).interleave(block, 1)) == [20, 21]


@pytest.mark.parametrize("lengths", [[2] * 5, [1] * 6, [0, 3, 0, 5, 1, 2, 0], [7, 1, 1, 1], []])
@pytest.mark.parametrize("cycle, length", [(1, 1), (2, 1), (2, 3), (3, 2), (4, 2), (9, 3)])
def test_a_dataset_that_ends_early_gives_its_turn_to_the_next(lengths, cycle, length):
    wanted, places, left, turn = [], [None] * cycle, [[10 * i + k for k in range(n)] for i, n in enumerate(lengths)], 0
    while left or any(place is not None for place in places):
        if places[turn] is None and left:
            places[turn] = left.pop(0)
        now = places[turn] or []
        wanted += now[:length]
        places[turn] = now[length:] if len(now) >= length else None
        turn = (turn + 1) % cycle
    feed = Dataset.from_tensor_slices(np.array(lengths, "int64")).host_map(lambda n: n)
    numbered = Dataset.zip(Dataset.range(len(lengths)), feed)
    assert values(numbered.interleave(lambda i, n: Dataset.range(int(n)).map(lambda k: k + 10 * i), cycle, length)) == wanted


def test_draws_in_a_pipeline_do_not_depend_on_threads_or_on_draws_beside_it():
    def run(make, beside):
        lm.random.set_seed(0)
        feed = make(Dataset.range(60).map(lambda i: lm.astype(i, "float32")))
        out = []
        for v in feed:
            out.append(float(v))
            if beside:
                lm.random.uniform(())
        return out

    forms = [lambda d: d.map(lambda v: v + lm.random.uniform(())), lambda d: d.map(lambda v: v + lm.random.uniform(()), parallel=4).prefetch(3), lambda d: d.map(lambda v: v + lm.random.uniform(())).prefetch()]
    all_runs = [run(make, beside) for make in forms for beside in (False, True, True)]
    assert all(one == all_runs[0] for one in all_runs) and len({v % 1 for v in all_runs[0]}) > 50
    lm.random.set_seed(0)
    feed = Dataset.zip(*[Dataset.range(5).map(lambda i: lm.random.uniform(())) for _ in range(2)]).repeat(2)
    drawn = [float(v) for pair in feed for v in pair]
    assert len(set(drawn)) == 20  # each step, pass and element has its own
    lm.random.set_seed(0)
    first = float(lm.random.uniform(()))
    lm.random.set_seed(0)
    list(feed)
    assert float(lm.random.uniform(())) == first


def test_shuffle_of_what_has_no_length_asks_for_a_size():
    for feed, said in ((Dataset.range(3).repeat(), "never ends"), (Dataset.from_generator(lambda: iter([1])), "does not say")):
        with pytest.raises(lm.errors.TypeMismatch, match=f"(?s){said}.*buffer_size"):
            feed.shuffle(seed=1)
        feed.shuffle(2, seed=1)


def test_numbers_of_numpy_are_numbers():
    n, want = np.int64(3), values(Dataset.range(9).shuffle(3, seed=3))
    assert values(Dataset.range(np.int32(9)).shuffle(n, seed=n)) == want
    assert values(Dataset.range(9).shuffle(3, seed=np.uint64(2**64 - 1))) == values(Dataset.range(9).shuffle(3, seed=-1))
    assert [len(part) for part in Dataset.range(9).random_split([np.int64(6), n], seed=n)] == [6, 3]
    assert [len(part) for part in Dataset.range(9).random_split(np.array([0.5, 0.5], "float32"), seed=n)] == [4, 5]
    for make in (lambda d: d.batch(n), lambda d: d.take(n), lambda d: d.skip(n), lambda d: d.repeat(n), lambda d: d.prefetch(n), lambda d: d.padded_batch(n), lambda d: d.map(lambda i: i, parallel=n),
                 lambda d: d.interleave(lambda i: Dataset.range(2), n, n), lambda d: Dataset.from_generator(lambda: iter(range(3)), size=n)):
        assert len(list(make(Dataset.range(9)))) > 0
    with pytest.raises(lm.errors.Error):
        Dataset.range(9).shuffle(3, seed=True)


@pytest.mark.parametrize("rows", [True, False])
def test_random_split_cuts_the_whole_into_parts(rows):
    d = Dataset.from_tensor_slices(np.arange(50)) if rows else Dataset.range(50).host_map(lambda i: i)
    a, b = d.random_split([0.8, 0.2], seed=1)
    assert (len(a), len(b)) == (40, 10) and sorted(values(a) + values(b)) == list(range(50)) and values(a) == sorted(values(a)) and values(b) != list(range(40, 50))
    assert [values(p) for p in lm.data.random_split(d, [40, 10], seed=1)] == [values(a), values(b)]
    assert [len(p) for p in d.random_split([0.333, 0.333, 0.334], seed=2)] == [17, 16, 17]
    for bad in ([60, 10], [], [0.5, 0.4], ["a"]):
        with pytest.raises(ValueError):
            d.random_split(bad)
    with pytest.raises(TypeError, match="not known"):
        d.filter(bool).random_split([0.5, 0.5])


def test_random_split_is_for_elements_that_keep_their_order():
    d = Dataset.from_tensor_slices(np.arange(20))
    shuffled = [d.shuffle(seed=1), Dataset.range(20).shuffle(5), d.shuffle().host_map(lambda i: i), d.shuffle().batch(2), d.shuffle().take(10), Dataset.range(20).shuffle().repeat(2), d.shuffle().prefetch(2),
                Dataset.zip(d, d.shuffle()), d.shuffle().cache(), d.shuffle().batch(4).map(lambda i: i)]
    for one in shuffled:
        with pytest.raises(lm.errors.InvalidArgument, match="(?s)shuffled elements.*split first"):
            one.random_split([0.5, 0.5])
    kept = d.shuffle().cache()
    order = values(kept)
    a, b = kept.random_split([14, 6])  # what is kept has one order
    assert sorted(values(a) + values(b)) == sorted(order)
    a, b = (part.shuffle() for part in d.random_split([14, 6]))
    assert all(sorted(values(a) + values(b)) == list(range(20)) for _ in range(2))


def test_padded_batches():
    d = Dataset.range(5).host_map(lambda i: (np.full((int(i), 2), i, "float32"), i))
    out = list(d.padded_batch(3, -1))
    assert out[0][0].shape == (3, 2, 2) and out[1][0].shape == (2, 4, 2) and out[0][1].numpy().tolist() == [0, 1, 2]
    assert out[0][0].numpy().tolist() == [[[-1, -1]] * 2, [[1, 1], [-1, -1]], [[2, 2]] * 2]
    with pytest.raises(ValueError):
        list(Dataset.range(2).host_map(lambda i: np.zeros((1,) * (1 + int(i)))).padded_batch(2))


@pytest.mark.parametrize("make", [
    lambda: Dataset.range(40).host_map(lambda i: i * 3, parallel=3).shuffle(16, seed=4).batch(3).prefetch(2),
    lambda: Dataset.from_tensor_slices(np.arange(40) * 3).shuffle(seed=4).host_map(lambda i: i).batch(3).prefetch(),
    lambda: Dataset.from_tensor_slices(np.arange(40) * 3).shuffle(seed=4).cache().batch(3),
    lambda: Dataset.from_tensor_slices(np.arange(20) * 3).shuffle(seed=4).repeat(2).host_map(lambda i: i).batch(3),
], ids=["elements", "rows", "cache", "repeat"])
def test_a_position_is_saved_and_restored(tmp_path, make):
    feed = make()
    whole = [values(feed) for _ in range(3)]
    assert whole[0] != whole[1] or "cache" in repr(make.__code__.co_names)
    feed, seen = make(), []
    saved = lm.Checkpoint(tmp_path, data=feed)
    seen += values(feed)
    for t in feed:
        seen.append(t.numpy().tolist())
        if len(seen) == 20:
            saved.save(20)
            break
    again = make()
    assert lm.Checkpoint(tmp_path, data=again).restore() == 20
    assert seen + values(again) + values(again) == whole[0] + whole[1] + whole[2]


def test_skipped_elements_are_not_made_again(tmp_path):
    calls = []
    make = lambda: Dataset.range(20).host_map(lambda i: calls.append(int(i)) or i).batch(2)  # noqa: E731
    feed = make()
    elements = iter(feed)
    for _ in range(8):
        next(elements)
    lm.Checkpoint(tmp_path, data=feed).save(1)
    del elements
    calls.clear()
    again = make()
    lm.Checkpoint(tmp_path, data=again).restore()
    assert values(again) == [[16, 17], [18, 19]] and calls == [16, 17, 18, 19]


def test_generators_and_loaders():
    assert values(Dataset.from_generator(lambda: iter([1, 2, 3])).batch(2)) == [[1, 2], [3]]
    with pytest.raises(ValueError, match="only once"):
        Dataset.from_generator(iter([1]))
    with pytest.raises(TypeError):
        Dataset.from_generator(3)

    class Loader:  # as PyTorch's: lists of what has __array__
        class Tensor:
            def __init__(self, a):
                self.a = np.asarray(a)
                self.shape = self.a.shape

            def __array__(self, dtype=None, copy=None):
                return self.a

        def __len__(self):
            return 3

        def __iter__(self):
            for i in range(3):
                yield [self.Tensor(np.full((4, 2), i, "float32")), self.Tensor(np.full(4, i))]

    feed = Dataset.from_generator(Loader())
    assert len(feed) == 3 and [x.shape for x, _ in feed] == [(4, 2)] * 3 and [int(y.numpy()[0]) for _, y in feed.prefetch()] == [0, 1, 2]
    net = lm.nn.Sequential([lm.nn.Dense(3)])
    net.compile("sgd", "sparse_categorical_crossentropy")
    assert len(net.fit(Loader(), epochs=2, verbose=0).epoch) == 2


def test_files(tmp_path):
    a = np.arange(6, dtype="float32").reshape(3, 2)
    np.save(tmp_path / "a.npy", a)
    assert np.array_equal(lm.data.read_npy(tmp_path / "a.npy"), a)
    np.save(tmp_path / "objects.npy", np.array([print], dtype=object))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-3])
    np.savez(tmp_path / "two.npz", a, a)
    for name, old, new in (("brace.npy", b"}", b" "), ("quote.npy", b"'<f4'", b"'<f4\xff"), ("shape.npy", b"(3, 2)", b"(3, -2")):
        (tmp_path / name).write_bytes((tmp_path / "a.npy").read_bytes().replace(old, new, 1))
    for name in ("objects.npy", "cut.npy", "none.npy", "two.npz", "brace.npy", "quote.npy", "shape.npy"):
        with pytest.raises(lm.errors.BadFile, match=name):
            lm.data.read_npy(tmp_path / name)
    (tmp_path / "t.csv").write_text('a,b,"y"\n1,2,3\n4,,6\n7,8.5,-1e3\n')
    names, rows = lm.data.read_csv(tmp_path / "t.csv")
    assert names == ["a", "b", "y"] and rows.dtype == "float32" and np.isnan(rows[1, 1]) and rows[2, 2] == -1000
    x, y = next(iter(Dataset.from_csv(tmp_path / "t.csv", label="y").batch(3)))
    assert x.shape == (3, 2) and y.numpy().tolist() == [3, 6, -1000] and len(Dataset.from_csv(tmp_path / "t.csv")) == 3
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "t.csv").read_bytes())
    assert lm.data.read_csv(tmp_path / "marked.csv")[0] == names
    (tmp_path / "quoted.csv").write_text('"a, b",c\n1,2\n')
    assert lm.data.read_csv(tmp_path / "quoted.csv")[0] == ["a, b", "c"]
    (tmp_path / "head.csv").write_text("a,b\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lm.data.read_csv(tmp_path / "head.csv")[1].shape == (0, 2)
    with pytest.raises(KeyError, match="column"):
        Dataset.from_csv(tmp_path / "t.csv", label="z")
    for name, text, say in [("text", "a,b\n1,x\n", "line 2, column 2"), ("ragged", "a,b\n1,2\n3\n", "columns"), ("wide", "a\n1,2\n", "1 columns"), ("empty number", "a\n1\n", None)]:
        (tmp_path / "bad.csv").write_text(text)
        if say is None:
            assert lm.data.read_csv(tmp_path / "bad.csv", dtype="int32")[1].tolist() == [[1]]
        else:
            with pytest.raises(lm.errors.BadFile, match=say):
                lm.data.read_csv(tmp_path / "bad.csv")


def test_folders_of_pictures(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="Pillow decodes pictures")
    for name, colour in (("cat", (255, 0, 0)), ("dog", (0, 255, 0))):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.new("RGB", (4 + i, 6), colour).save(tmp_path / name / f"{i}.png")
    (tmp_path / "dog" / "notes.txt").write_text("x")
    feed = Dataset.from_images(tmp_path, size=(5, 3))
    x, y = next(iter(feed.batch(6)))
    assert feed.class_names == ["cat", "dog"] and x.shape == (6, 5, 3, 3) and x.dtype == lm.uint8 and y.numpy().tolist() == [0] * 3 + [1] * 3
    assert x.numpy()[0, 0, 0].tolist() == [255, 0, 0] and [t.shape for t, _ in Dataset.from_images(tmp_path)][2] == (6, 6, 3)
    (tmp_path / "cat" / "1.png").write_bytes(b"nonsense")
    with pytest.raises(lm.errors.BadFile, match="(?s)item 1 of host_map.*1.png"):
        list(feed)
    with pytest.raises(lm.errors.BadFile, match="no picture"):
        Dataset.from_images(tmp_path / "cat")


def test_pandas(tmp_path):
    pd = pytest.importorskip("pandas", reason="DataFrames are pandas'")
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 1.5], "y": [0, 1, 1]})
    x, y = next(iter(Dataset.from_pandas(frame, label="y").batch(3)))
    assert x.dtype == lm.float32 and x.shape == (3, 2) and y.dtype == lm.int64 and y.numpy().tolist() == [0, 1, 1]
    assert list(next(iter(Dataset.from_tensor_slices(dict(frame))))) == ["a", "b", "y"]
    with pytest.raises(TypeError, match="'c'"):
        Dataset.from_pandas(frame.assign(c=["u", "v", "w"]))


def threads():
    return lm._core.data._threads()


def gone(seconds=10):
    end = time.time() + seconds
    while threads() and time.time() < end:
        time.sleep(0.01)
    return threads() == 0


def test_no_threads_are_left():
    feed = Dataset.range(10**6).host_map(lambda i: i, parallel=3).prefetch(4)
    for i, _ in enumerate(feed):
        if i == 5:
            assert threads() == 4
            break
    assert gone()
    list(Dataset.range(10).prefetch(2))
    assert gone()
    several = [iter(feed) for _ in range(3)]
    for one in several:
        next(one)
    del one, several
    assert gone()


def test_an_interrupt_ends_a_wait(tmp_path):
    program = """
import lamina as lm, os, signal, threading, time
feed = lm.data.Dataset.range(10).host_map(lambda i: time.sleep(0.4) or i, parallel=2).prefetch()
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
began = time.time()
try:
    list(feed)
except KeyboardInterrupt:
    print("interrupted", time.time() - began < 5)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["interrupted", "True"] and done.returncode == 0, done.stderr


def test_an_interrupt_ends_a_long_skip():
    program = """
import lamina as lm, signal
def stop(*_): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
for feed in (lm.data.Dataset.range(3).repeat().skip(2**61), lm.data.Dataset.range(3).shuffle(2).repeat().skip(2**61)):
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        list(feed.take(1))
    except KeyboardInterrupt:
        print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["interrupted"] * 2 and done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", ["in a loop", "while an element is made", "by a signal"])
def test_a_process_ends_while_threads_read(how):
    program = f"""
import lamina as lm, os, sys, time
feed = lm.data.Dataset.range(10**6).host_map(lambda i: time.sleep(0.05) or i, parallel=4).prefetch()
elements = iter(feed)
next(elements)
if {how!r} == "by a signal":
    import signal, threading
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    for _ in elements: pass
if {how!r} == "in a loop":
    raise SystemExit(3)
print("end")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == {"in a loop": 3, "while an element is made": 0, "by a signal": -15}[how] and done.stderr == "", done.stderr


def test_a_forked_child_says_that_the_threads_are_not_there():
    elements = iter(Dataset.range(100).prefetch(2))
    next(elements)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            try:
                said = str(next(elements))
            except lm.errors.StateError as e:
                said = "forked" if "forked" in str(e) else str(e)
            said += str(values(Dataset.range(3).prefetch(2)))
            os.write(write, said.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == "forked[0, 1, 2]"
    os.waitpid(child, 0)
    assert int(next(elements)) == 1


def test_waiting_for_data_is_in_the_profile():
    with lm.profiler.record() as r:
        list(Dataset.range(3).host_map(lambda i: time.sleep(0.02) or i))
    assert [one.end - one.begin > 1e4 for one in r.ranges if one.text == "data"] == [True] * 3 + [False]


def test_waiting_for_data_is_in_the_progress_bar(capsys):
    net = lm.nn.Sequential([lm.nn.Dense(1)])
    net.compile("sgd", "mse")
    x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
    slow = Dataset.range(4).host_map(lambda i: time.sleep(0.05) or (x, y))
    net.fit(slow, epochs=2)
    said = capsys.readouterr().out
    assert "4/4 [" in said and "waiting for data: " in said.rsplit("4/4", 1)[1]
    net.fit(x, y)
    net.fit(slow.cache(), epochs=2, verbose=0)
    assert "waiting" not in capsys.readouterr().out


def test_fit_takes_data_of_unknown_length(capsys):
    net = lm.nn.Sequential([lm.nn.Dense(1)])
    net.compile("sgd", "mse")
    feed = Dataset.from_generator(lambda: ((np.full((2, 3), i, "float32"), np.ones((2, 1), "float32")) for i in range(3)))
    history = net.fit(feed, epochs=2, validation_data=feed)
    assert len(history.history["val_loss"]) == 2 and "3/3 [====" in capsys.readouterr().out and net.evaluate(feed) == history.history["val_loss"][1]
    with pytest.raises(ValueError, match="never ends"):
        net.fit(feed.repeat(), verbose=0)
    with pytest.raises(ValueError, match="no data"):
        net.fit(feed.take(0), verbose=0)


def test_what_is_no_pipeline_is_refused():
    for bad in (lambda: lm.data.host_map([1], float), lambda: Dataset.zip(1), lambda: Dataset.zip(), lambda: Dataset.range(-1), lambda: Dataset.range(3).prefetch(0),
                lambda: Dataset.range(3).host_map(float, parallel=0), lambda: Dataset.range(3).host_map(float, parallel=10**6), lambda: Dataset.range(3).interleave(float, 0)):
        with pytest.raises((ValueError, TypeError)) as e:
            bad()
        assert isinstance(e.value, lm.errors.Error)
