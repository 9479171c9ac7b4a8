"""The table of ops: {(domain, op type): Row}. Each family's file adds its rows with @op."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

OPS: dict = {}
FOLDED: set = set()  # ops that are folded at trace time when all their inputs are known: what shapes are computed with


@dataclass(frozen=True)
class Row:
    function: Callable
    fixed: tuple = ()  # inputs whose values must be known at trace time
    raw: bool = False  # its inputs are given as they are: arrays stay arrays


def op(*names, fixed=(), raw=False, fold=False, domain=""):
    """The function(node, *inputs) of these ops. Inputs are tensors, None where they are missing."""

    def add(function):
        for name in names:
            OPS[(domain, name)] = Row(function, tuple(fixed), raw)
            if fold:
                FOLDED.add((domain, name))
        return function

    return add


def fold(*names):
    FOLDED.update(("", name) for name in names)


from . import _control, _elementwise, _linear, _normal, _recurrent, _sequences, _shapes, _windows  # noqa: E402, F401  they fill the table
