"""Datasets and IDX files."""
import gzip, struct

import numpy as np
import pytest

import lamina as lm

Dataset = lm.data.Dataset


def rows(dataset):
    return [t.numpy().tolist() for t in dataset]


def test_batches_keep_order_and_start_again():
    d = Dataset.from_tensor_slices(np.arange(7)).batch(3)
    assert len(d) == 3 and rows(d) == rows(d) == [[0, 1, 2], [3, 4, 5], [6]] and rows(Dataset.from_tensor_slices(np.arange(7)).batch(3, drop_remainder=True)) == [[0, 1, 2], [3, 4, 5]]
    assert rows(Dataset.from_tensor_slices([[1, 2], [3, 4]])) == [[1, 2], [3, 4]] and next(iter(d)).dtype == lm.int64


def test_structures():
    x, y = np.arange(6, dtype="float32").reshape(3, 2), [1, 2, 3]
    for bx, by in Dataset.from_tensor_slices((x, y)).batch(2):
        assert bx.dtype == lm.float32 and by.dtype == lm.int32 and bx.shape[0] == by.shape[0]
    first = next(iter(Dataset.from_tensor_slices({"x": x, "more": (y, (x,))}).batch(2)))
    assert set(first) == {"x", "more"} and first["more"][1][0].shape == (2, 2) and isinstance(first["more"], tuple)
    with pytest.raises(ValueError, match="3.*2|2.*3"):
        Dataset.from_tensor_slices((x, [1, 2]))
    for bad in (3.0, ()):
        with pytest.raises(ValueError):
            Dataset.from_tensor_slices(bad)
    with pytest.raises(TypeError):
        Dataset.from_tensor_slices("text")


def test_shuffling_is_a_permutation_that_follows_the_seed():
    d = Dataset.from_tensor_slices((np.arange(50), np.arange(50) * 2)).shuffle(seed=3).batch(7)
    one, two = [[t.numpy() for t in pair] for pair in d], [[t.numpy() for t in pair] for pair in d]
    order = np.concatenate([a for a, _ in one])
    assert sorted(order) == list(range(50)) and list(order) != list(range(50)) and all(np.array_equal(a * 2, b) for a, b in one)
    assert not all(np.array_equal(a[0], b[0]) for a, b in zip(one, two))
    again = [[t.numpy() for t in pair] for pair in Dataset.from_tensor_slices((np.arange(50), np.arange(50) * 2)).shuffle(seed=3).batch(7)]
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(one, again))
    lm.random.set_seed(5)
    a = rows(Dataset.from_tensor_slices(np.arange(20)).shuffle())
    lm.random.set_seed(5)
    assert rows(Dataset.from_tensor_slices(np.arange(20)).shuffle()) == a
    whole = rows(Dataset.from_tensor_slices(np.arange(6)).batch(2).shuffle(seed=1))
    assert sorted(whole) == [[0, 1], [2, 3], [4, 5]]


def test_repeat_and_arguments():
    d = Dataset.from_tensor_slices(np.arange(3))
    assert rows(d.repeat(2).batch(4)) == [[0, 1, 2, 0], [1, 2]] and len(d.repeat(2)) == 6
    with pytest.raises(TypeError, match="length"):
        len(d.repeat())
    for bad in (0, -1):
        with pytest.raises(lm.errors.InvalidArgument, match="batch_size"):
            d.batch(bad)
    for bad in (2.5, True, "2"):
        with pytest.raises(lm.errors.TypeMismatch, match="'batch_size' is a"):
            d.batch(bad)


def test_ragged_tails_cost_one_trace_and_open_dimensions_none():
    def run(**kw):
        f = lm.function(lambda b: lm.sum(b), **kw)
        d = Dataset.from_tensor_slices(np.ones((70, 3), "float32")).batch(32)
        return sum(f(b).item() for _ in range(2) for b in d), f.trace_count
    assert run() == (420, 2) and run(input_signature=[lm.TensorSpec([None, 3])]) == (420, 1)


def idx(array, code):
    return struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("dtype, code", [("uint8", 8), ("int8", 9), ("int16", 11), ("int32", 12), ("float32", 13), ("float64", 14)])
def test_idx_files(tmp_path, dtype, code):
    a = np.arange(24).reshape(2, 3, 4).astype(dtype)
    (tmp_path / "plain").write_bytes(idx(a, code))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(a, code)))
    for name in ("plain", "packed.gz"):
        b = lm.data.read_idx(tmp_path / name)
        assert b.dtype == dtype and np.array_equal(a, b)


def damaged():
    good = idx(np.arange(24, dtype="uint8").reshape(2, 3, 4), 8)
    yield from ((f"cut at {n}", good[:n]) for n in (0, 2, 4, 9, 16, len(good) - 1))
    yield "too long", good + b"x"
    yield "unknown type", good[:2] + b"\x07" + good[3:]
    yield "wrong start", b"\x01" + good[1:]
    yield "huge", struct.pack(">BBBBIII", 0, 0, 14, 3, 2**31, 2**31, 2**31)
    yield "huge dimension", struct.pack(">BBBBI", 0, 0, 8, 1, 2**32 - 1) + b"abc"
    yield "gzip cut", gzip.compress(good)[:-9]
    yield "gzip of nonsense", gzip.compress(b"nonsense")
    broken = bytearray(gzip.compress(good))
    broken[len(broken) // 2] ^= 0xFF
    yield "gzip broken", bytes(broken)
    yield "text", b"hello, this is text"


@pytest.mark.parametrize("what, content", list(damaged()), ids=lambda v: v if isinstance(v, str) else "")
def test_damaged_idx_files_are_refused(tmp_path, what, content):
    path = tmp_path / "bad"
    path.write_bytes(content)
    with pytest.raises(lm.errors.BadFile) as e:
        lm.data.read_idx(path)
    assert isinstance(e.value, ValueError) and "bad" in str(e.value)


def test_a_missing_idx_file_is_refused(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(lm.errors.BadFile):
            lm.data.read_idx(path)
