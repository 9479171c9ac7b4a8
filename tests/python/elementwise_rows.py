"""Each elementwise function of lm from kernels/shared/elementwise_ops.inc in NumPy: one row per function. Tests of values, gradients and
transforms use the rows."""
from __future__ import annotations

import dataclasses
import math
import pathlib
import re
from typing import Callable

import numpy as np


@dataclasses.dataclass
class Row:
    reference: Callable  # of arrays
    kinds: str = "n"  # a letter per operand: n(umber), p(ositive), u (between -1 and 1), o (above 1), b(ool), i(nteger)
    slope: bool = True
    rough: float = 1.0  # multiple of the usual error


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def each(f):
    return np.vectorize(f, otypes=["float64"])


def jumps(reference, kinds):
    return Row(reference, kinds, slope=False, rough=50)


ROWS = {
    "abs": Row(np.abs), "acos": Row(np.arccos, "u"), "acosh": Row(np.arccosh, "o", rough=4), "add": Row(np.add, "nn"), "asin": Row(np.arcsin, "u"), "asinh": Row(np.arcsinh),
    "atan": Row(np.arctan), "atan2": Row(np.arctan2, "np"), "atanh": Row(np.arctanh, "u"), "bitwise_and": Row(np.bitwise_and, "ii"), "bitwise_not": Row(np.invert, "i"),
    "bitwise_or": Row(np.bitwise_or, "ii"), "bitwise_xor": Row(np.bitwise_xor, "ii"), "cbrt": Row(np.cbrt), "ceil": Row(np.ceil), "cos": Row(np.cos), "cosh": Row(np.cosh),
    "div": Row(np.divide, "np"), "elu": Row(lambda x: np.where(x > 0, x, np.expm1(x))), "equal": Row(np.equal, "nn", False), "erf": Row(each(math.erf)), "erfc": Row(each(math.erfc)),
    "exp": Row(np.exp), "exp2": Row(np.exp2), "expm1": Row(np.expm1), "floor": Row(np.floor), "floor_divide": jumps(np.floor_divide, "np"), "fmod": jumps(np.fmod, "np"),
    "gelu": Row(each(lambda x: x * math.erfc(-x / math.sqrt(2)) / 2)), "greater": Row(np.greater, "nn", False), "greater_equal": Row(np.greater_equal, "nn", False),
    "isfinite": Row(np.isfinite, slope=False), "isinf": Row(np.isinf, slope=False), "isnan": Row(np.isnan, slope=False), "leaky_relu": Row(lambda x: np.where(x > 0, x, 0.01 * x)),
    "less": Row(np.less, "nn", False), "less_equal": Row(np.less_equal, "nn", False), "log": Row(np.log, "p"), "log10": Row(np.log10, "p"), "log1p": Row(np.log1p, "p"),
    "log2": Row(np.log2, "p"), "logaddexp": Row(np.logaddexp, "nn"), "logical_and": Row(np.logical_and, "bb"), "logical_not": Row(np.logical_not, "b"),
    "logical_or": Row(np.logical_or, "bb"), "logical_xor": Row(np.logical_xor, "bb"), "maximum": Row(np.maximum, "nn"), "minimum": Row(np.minimum, "nn"), "mod": jumps(np.mod, "np"),
    "mul": Row(np.multiply, "nn"), "neg": Row(np.negative), "not_equal": Row(np.not_equal, "nn", False), "pow": Row(np.power, "pn"), "reciprocal": Row(np.reciprocal, "p"),
    "relu": Row(lambda x: np.maximum(x, 0)), "round": Row(np.round, slope=False), "rsqrt": Row(lambda x: x**-0.5, "p"), "shift_left": Row(np.left_shift, "ii"),
    "shift_right": Row(np.right_shift, "ii"), "sigmoid": Row(sigmoid), "sign": Row(np.sign), "silu": Row(lambda x: x * sigmoid(x)), "sin": Row(np.sin), "sinh": Row(np.sinh),
    "softplus": Row(lambda x: np.log1p(np.exp(x))), "sqrt": Row(np.sqrt, "p"), "square": Row(np.square), "sub": Row(np.subtract, "nn"), "tan": Row(np.tan), "tanh": Row(np.tanh),
    "trunc": Row(np.trunc),
}
for row in ROWS.values():
    row.slope = row.slope and not set(row.kinds) & set("bi")

TABLE = (pathlib.Path(__file__).parents[2] / "kernels/shared/elementwise_ops.inc").read_text(encoding="utf-8")
ACCESS = dict(re.findall(r"^ELEMENTWISE\((\w+), \d, \w+, \w+, \w+, (\w+),", TABLE, re.M))  # op: function, by_hand or inner
ACTIVATIONS = re.findall(r"^ACTIVATION\((\w+),", TABLE, re.M)
OTHERWISE = {"clip": "bounds are arguments", "where": "its operands have two dtypes"}
