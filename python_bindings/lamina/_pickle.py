"""Functions named in pickles of tensors and dtypes, because functions of the compiled module cannot be pickled."""
from . import _core


def dtype(name):
    return _core.dtype(name)


def tensor(array, name):
    return _core.constant(array, name)
