"""Checks for tests."""
from __future__ import annotations

from . import _border, _core
from ._structure import flatten

__all__ = ["assert_graph_matches_eager", "fma_peak"]

fma_peak = _core.fma_peak


def assert_graph_matches_eager(fn, *args, rtol: float = 1e-5, atol: float = 0.0, **kwargs):
    """Calls fn(*args, **kwargs) eagerly and as a graph, and raises AssertionError unless both return the same structure, dtypes, shapes
    and values.

    Values agree when |a - b| <= atol + rtol * the largest |a| of that tensor, so an all-zero result never passes for a tiny one. Variables
    that fn changes are changed twice. Returns the eager result.
    """
    import numpy as np

    eager_fn = getattr(fn, "python_function", fn)
    graph_fn = fn if isinstance(fn, _core.Function) else _core.function(fn)
    with _core.config.run_functions_eagerly(True):
        eager = eager_fn(*args, **kwargs)
    graph = graph_fn(*args, **kwargs)
    (eager_leaves, a), (graph_leaves, b) = flatten(eager), flatten(graph)
    if _outline(a) != _outline(b):
        raise AssertionError(f"the results are nested differently: {eager!r} eagerly, {graph!r} as a graph")
    for i, (x, y) in enumerate(zip(eager_leaves, graph_leaves)):
        if not hasattr(x, "numpy") and not hasattr(y, "numpy"):
            if x is not y and x != y:
                raise AssertionError(f"result {i} is {x!r} eagerly and {y!r} as a graph")
            continue
        (x, dtype), (y, other) = _array(x), _array(y)
        if dtype != other or x.shape != y.shape:
            raise AssertionError(f"result {i} is {dtype}{x.shape} eagerly and {other}{y.shape} as a graph")
        if x.dtype.kind not in "fc":
            same = np.array_equal(x, y)
        else:
            finite = np.abs(x[np.isfinite(x)])
            limit = atol + rtol * (finite.max() if finite.size else 0.0)
            same = np.array_equal(np.isnan(x), np.isnan(y)) and np.all((x == y) | np.isnan(x) | (np.abs(x - y) <= limit))
        if not same:
            raise AssertionError(f"result {i} differs: {_core.constant(x)} eagerly, {_core.constant(y)} as a graph")
    return eager


def _array(x):
    """x as NumPy's array, and the name of its dtype. NumPy has no bfloat16: the array is float32 then."""
    import numpy as np

    if getattr(x, "dtype", None) == _core.bfloat16:
        return np.asarray(_core.astype(x, "float32")), "bfloat16"
    array = np.asarray(x)
    return array, array.dtype.name


def _outline(node):
    return (node.kind, node.keys, tuple(_outline(child) for child in node.children))


_border.guard(globals())
