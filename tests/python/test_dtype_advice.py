"""The fix in an error about dtypes never loses digits: for every pair of dtypes, in every function with such an error."""
import re

import pytest

import lamina as lm

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
DIGITS = {"bool": 1, "uint8": 8, "int8": 7, "int16": 15, "int32": 31, "int64": 63, "float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def holds(wide, narrow):
    """Whether the dtype `wide` holds every number of `narrow`; float64 is accepted for int64, because no dtype holds both."""
    if wide == narrow or narrow == "bool":
        return True
    if "float" in narrow:
        return "float" in wide and DTYPES.index(wide) > DTYPES.index(narrow) and {wide, narrow} != {"float16", "bfloat16"}
    if narrow == "uint8" and wide == "int8":
        return False
    return DIGITS[wide] >= DIGITS[narrow] or (wide, narrow) == ("float64", "int64")


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", DTYPES)
def test_no_advice_loses_digits(a, b):
    if a == b:
        pytest.skip("one dtype")
    x, y = lm.astype(lm.ones((2, 2)), a), lm.astype(lm.ones((2, 2)), b)
    calls_ = [lambda: lm.add(x, y), lambda: lm.where(x != 0, x, y), lambda: lm.matmul(x, y), lambda: lm.concat([x, y]), lambda: lm.maximum(x, y), lambda: lm.equal(x, y), lambda: lm.Variable(x).assign(y),
              lambda: lm.function(lambda c: lm.cond(c, lambda: x * 1, lambda: y * 1))(lm.constant(True)), lambda: x.at[0].set(y[0]), lambda: lm.scatter_add(x, lm.constant([0, 1]), (2, 2)) + y]
    seen = 0
    for call in calls_:
        try:
            call()
            continue  # a bool takes part in what others compute
        except lm.errors.TypeMismatch as error:
            advised = re.search(r"(?:lm\.astype\(\w+, lm\.|dtype=lm\.|\.astype\(')(\w+)", error.fix)
            if advised is None or "different dtypes" not in error.what and "operands are" not in error.what and "cond:" not in error.what and "the variable" not in error.what:
                continue
            seen += 1
            for given in (a, b):
                if "cond:" in error.what and "float" in advised[1] and "float" not in given:
                    continue  # what a branch gives as an integer is meant as the other's number
                assert holds(advised[1], given), f"{error}"
    assert seen >= 3 or "bool" in (a, b)
