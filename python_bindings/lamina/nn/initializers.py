"""Initial values of weights. Called with a shape they return a tensor; with a seed they always return the same one."""
from .. import _core, _elsewhere

Initializer = _core.nn.Initializer
constant = _core.nn.constant_value
get = _core.nn.get_initializer
glorot_normal = _core.nn.glorot_normal
glorot_uniform = _core.nn.glorot_uniform
he_normal = _core.nn.he_normal
he_uniform = _core.nn.he_uniform
looks_linear = _core.nn.looks_linear
ones = _core.nn.ones
orthogonal = _core.nn.orthogonal
random_normal = _core.nn.random_normal
random_uniform = _core.nn.random_uniform
zeros = _core.nn.zeros

__all__ = [
    "Initializer", "constant", "get", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "looks_linear", "ones", "orthogonal",
    "random_normal", "random_uniform", "zeros",
]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.nn.initializers", __all__)
