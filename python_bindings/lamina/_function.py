"""lm.function, with the types that checkers see: the function's own parameters and result, and what an lm.Function adds."""
from __future__ import annotations

from . import _border, _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Generic, ParamSpec, TypeVar, overload

    from ._explanation import Explanation

    P = ParamSpec("P")
    R = TypeVar("R")

    class Traced(Generic[P, R]):

        __wrapped__: Callable[..., R]
        trace_count: int
        traces: list[dict[str, Any]]

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
        def __get__(self, instance: object, owner: type | None = None) -> Any: ...
        def get_concrete_function(self, *args: Any, **kwargs: Any) -> _core.ConcreteFunction: ...
        def inspect(self, *args: Any, **kwargs: Any) -> _core.Inspection: ...
        def explain(self, *args: Any, **kwargs: Any) -> Explanation: ...

    @overload
    def function(fn: Callable[P, R], *, input_signature: Sequence[Any] | None = None, relax_shapes: bool = False, autograph: bool = True, memory_budget: int | None = None) -> Traced[P, R]: ...
    @overload
    def function(fn: None = None, *, input_signature: Sequence[Any] | None = None, relax_shapes: bool = False, autograph: bool = True,
                 memory_budget: int | None = None) -> Callable[[Callable[P, R]], Traced[P, R]]: ...
    def function(fn: Any = None, **options: Any) -> Any: ...
else:
    @_border.guarded
    def function(fn=None, *, input_signature=None, relax_shapes=False, autograph=True, memory_budget=None):
        """Returns fn as an lm.Function: traced into one graph per signature at the first call with it; later calls run the graph.

        A signature is the dtypes and shapes of tensors and Variables, and the type and value of everything else. NumPy arrays count as tensors,
        other objects by identity. Python code in fn runs only while tracing. Variables and models from outside are used by reference.

        input_signature: a list of TensorSpecs, one per tensor argument; one graph serves all matching calls, others raise SignatureMismatch.
        relax_shapes: calls that differ only in lengths share one graph for all lengths, from the second length on. A function that needs to know its lengths has a graph for each.
        autograph: if, while, for, and, or, not on tensors become part of the graph, here and in functions that fn calls. False: traces fn
        without conversion.
        memory_budget: limit of temporary memory per call in bytes. If the values do not fit, most of those kept for the gradient are recomputed
        with the same bits; if that does not fit either, the smallest plan found is used.

        Use it as lm.function(fn), @lm.function or @lm.function(...). fn may be a function, method, or any callable object such as a model.
        """
        if fn is None:
            return lambda fn: function(fn, input_signature=input_signature, relax_shapes=relax_shapes, autograph=autograph, memory_budget=memory_budget)
        return _core.function(fn, input_signature, relax_shapes, autograph, memory_budget)
