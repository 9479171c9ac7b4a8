"""AutoGraph leaves plain Python as it is: iterators, with statements, annotations, private names, numbers beside tensors, `and` and `or`, zip."""
import contextlib
import itertools
import textwrap

import numpy as np
import pytest
from test_autograph import both, made

import lamina as lm

c = lm.constant


# --- plain Python in traced functions ---

LEFT_LOOPS = {
    "break": "it = iter([1., 2., 3., 4.])\nfor k in it:\n    if k == 2.: break\nreturn x * next(it)",
    "return": "it = iter([1., 2., 3., 4.])\ndef first():\n    for k in it:\n        if k == 2.: return k\nreturn x * first() + next(it)",
    "two loops": "it, s = iter(range(9)), []\nfor k in it:\n    if k == 2: break\nfor k in it:\n    s.append(k)\n    if k == 5: break\nreturn x * sum(s) + next(it)",
    "generator": "made = []\ndef items():\n    for k in range(9):\n        made.append(k)\n        yield k\nfor k in items():\n    if k == 3: break\nreturn x * len(made)",
    "else": "it = iter([1., 2., 3.])\nfor k in it:\n    if k == 9.: break\nelse:\n    x = x + 1\nreturn x * len(list(it))",
}


@pytest.mark.parametrize("name", LEFT_LOOPS)
def test_a_python_loop_takes_no_item_after_it_is_left(name):
    f = made("def f(x):\n" + textwrap.indent(LEFT_LOOPS[name], "    "))
    both(f, [1.0, 2.0])


def test_a_python_loop_that_only_a_tensor_ends_has_a_bound():
    def endless(x):
        for _ in itertools.count():
            x = x * 0.5
            if lm.max(x) < 0.1:
                break
        return x

    def long(x):
        for _ in range(30):
            x = x * 0.5
            if lm.max(x) < 0.1:
                break
        return x
    with pytest.raises(lm.errors.ConversionFailed, match="a Python loop over a count has 10000 iterations, and no end yet") as error:
        lm.function(endless)(c([1.0]))
    assert "in endless" in error.value.where and "lm.range(n)" in error.value.fix
    both(long, [1.0])


SUPPRESSED = {
    "return": "with suppress(KeyError):\n    return x * {}['b']\nreturn x",
    "return without": "with suppress(KeyError):\n    return x * {'b': 2.}['b']\nreturn x",
    "continue": "for i in range(4):\n    with suppress(KeyError):\n        x = x * {1: 2.}[i]\n        continue\n    x = x + 10\nreturn x",
    "break": "for i in range(4):\n    with suppress(KeyError):\n        x = x * {1: 2.}[i]\n        break\n    x = x + 10\nreturn x",
    "raise in one arm": "if x.shape == (2,):\n    with suppress(KeyError):\n        raise KeyError('a')\nelse:\n    x = x * 3\nx = x + 1\nreturn x",
    "return in one arm": "if x.shape == (2,):\n    with suppress(KeyError):\n        return x * {}['a']\nreturn x + 1",
    "tensor": "if lm.sum(x) > 0:\n    with suppress(KeyError):\n        return x * 2\nreturn x + 1",
}


@pytest.mark.parametrize("name", SUPPRESSED)
def test_a_with_statement_may_swallow_exceptions(name):
    f = made("def f(x):\n" + textwrap.indent(SUPPRESSED[name], "    "), suppress=contextlib.suppress)
    both(f, [1.0, 2.0])
    both(f, [-1.0, -2.0])
