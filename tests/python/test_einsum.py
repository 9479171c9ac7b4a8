"""lm.einsum against NumPy."""
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamina as lm


def check(expression, *shapes):
    arrays = [np.asarray(np.random.random_sample(s)) for s in shapes]
    want = np.asarray(np.einsum(expression, *arrays))
    got = lm.einsum(expression, *[lm.constant(a) for a in arrays])
    assert got.shape == want.shape and got.numpy().dtype == want.dtype, expression
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("expression, shapes", [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ijk,kl->ijl", [(2, 3, 4), (4, 5)]), ("ij->ji", [(2, 3)]), ("ba", [(2, 3)]), ("ii", [(3, 3)]), ("ii->i", [(3, 3)]),
    ("ij->", [(2, 3)]), ("ij->j", [(2, 3)]), ("i,j->ij", [(2,), (3,)]), ("i,i->i", [(3,), (3,)]), ("i,i", [(3,), (3,)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]), ("bji,bjk->bik", [(2, 4, 3), (2, 4, 5)]), ("ijkl,jmln->iknm", [(2, 3, 4, 5), (3, 2, 5, 4)]), ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("...i,i->...", [(2, 3, 4), (4,)]), ("i...->...", [(2, 3, 4)]), ("...ii->...i", [(2, 3, 3)]), ("a,ab,abc->c", [(2,), (2, 3), (2, 3, 4)]), ("ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    ("iji->j", [(3, 2, 3)]), ("iiij->j", [(2, 2, 2, 3)]), ("ij,ij->", [(2, 3), (2, 3)]), ("ij,ik->jk", [(4, 2), (4, 3)]), ("ab,cd->", [(2, 3), (4, 5)]), (" i j , j k -> i k ", [(2, 3), (3, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("bhqk,bhkd->bqhd", [(2, 3, 4, 5), (2, 3, 5, 2)]), ("ij,j", [(2, 3), (3,)]), ("i,ij", [(2,), (2, 3)]), (",ij->ij", [(), (2, 3)]), ("->", [()]),
    ("ij,jk->ik", [(2, 0), (0, 4)]), ("ij,jk->ik", [(0, 3), (3, 4)]), ("ij,jk->ik", [(2, 1), (3, 4)]), ("...,...", [(2, 3), (3,)]), ("aB,Bc->ac", [(2, 3), (3, 2)]),
])
def test_expressions(expression, shapes):
    check(expression, *shapes)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16", "int32", "int64"])
def test_dtypes(dtype):
    arrays = [np.random.randint(0, 4, s).astype(dtype) for s in [(2, 3), (3, 4), (4,)]]
    for expression, some in (("ij,jk->ik", arrays[:2]), ("ij->i", arrays[:1]), ("ij,jk,k->ik", arrays)):
        want = np.einsum(expression, *some)
        got = lm.einsum(expression, *map(lm.constant, some)).numpy()
        assert got.dtype == want.dtype and np.array_equal(got, want)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_expressions(data):
    letters = string.ascii_lowercase[:5]
    lengths = {c: data.draw(st.integers(1, 3)) for c in letters}
    parts = data.draw(st.lists(st.text(letters, max_size=4), min_size=1, max_size=4))
    used = sorted(set("".join(parts)))
    output = "".join(data.draw(st.permutations([c for c in used if data.draw(st.booleans())])))
    check(",".join(parts) + "->" + output, *[tuple(lengths[c] for c in p) for p in parts])


def test_a_batch_of_products_is_one_matmul():
    a, b = np.ones((4, 3, 2), "float32"), np.ones((2, 5), "float32")
    assert lm.inspect(lambda a, b: lm.einsum("ijk,kl->ijl", a, b), a, b).traced.count("matmul") == 1
    assert len(lm.inspect(lambda a, b: lm.einsum("ijk,kl->ijl", a, b), a, b).traced) <= 3
    assert len(lm.inspect(lambda a, b: lm.einsum("bij,bkj->bik", a, b), np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")).traced) <= 3


def test_a_chain_takes_the_cheap_order():
    text = lm.function(lambda a, b, v: lm.einsum("ij,jk,k->i", a, b, v)).explain(np.ones((30, 40), "float32"), np.ones((40, 50), "float32"), np.ones((50,), "float32"))
    assert "f32[40,50]" in text and "f32[30,50]" not in text


@pytest.mark.parametrize("expression, shapes", [
    ("ij,jk->ik", [(2, 3), (4, 5)]), ("ij->ik", [(2, 3)]), ("ij->ii", [(2, 3)]), ("ij", [(2, 3, 4)]), ("ijk", [(2, 3)]), ("i1", [(2, 3)]), ("i-j", [(2, 3)]), ("ij,jk", [(2, 3)]), ("ii", [(2, 3)]),
    ("...i->i", [(2, 3)]), ("..i", [(2, 3)]), ("......i", [(2, 3)]), ("i->->i", [(2,)]), ("", [(2,)]),
])
def test_what_does_not_fit_is_refused(expression, shapes):
    with pytest.raises(ValueError, match="einsum"):
        lm.einsum(expression, *[np.ones(s, "float32") for s in shapes])
    with pytest.raises(TypeError):
        lm.einsum("i,i", lm.ones(2), lm.ones(2, "float64"))
