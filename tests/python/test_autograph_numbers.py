"""AutoGraph: Python numbers that loops and branches of the graph carry take the dtype of what they meet."""
import pytest

import lamina as lm


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int64", "uint8"])
def test_numbers_take_the_dtype_of_the_tensors_that_they_meet_in_a_loop(name):
    x = lm.constant([[1, 5], [3, 2]], dtype=getattr(lm, name))

    def total(x):
        s = 0
        for row in x:
            t = 0
            for v in row:
                t += v
            s += t
        return s

    def most(x):
        best = -1
        for v in x[:, 1]:
            if v > best:
                best = v
        return best

    for body, expected in ((total, 11), (most, 5)) if name != "uint8" else ((total, 11),):
        result = lm.function(body)(x)
        assert result.dtype == x.dtype and float(result) == expected

    def mixed(x):
        s = 0
        for row in x:
            s += row[0]
            s += lm.astype(row[0], lm.complex64)
        return s

    with pytest.raises(lm.errors.TypeMismatch, match="have different dtypes"):  # the user's own error, at its line
        lm.function(mixed)(x)


def test_an_int_and_a_float_of_two_branches_are_a_float():
    def early(x):
        if x > 0:
            return 0
        return 1.5

    def three(x):
        if x > 0:
            s = 1
        elif x > -1:
            s = 2.5
        else:
            s = 3
        return s * x

    for body in (early, three, lambda x: 0 if x > 0 else 1.5, lambda x: 1.5 if x > 0 else 0):
        for v in (2.0, -0.5, -2.0):
            result = lm.function(body)(lm.constant(v))
            assert result.dtype == lm.float32 and float(result) == body(v)
