"""How tests compare results."""
import numpy as np

import lamina as lm


def plain(x):
    """Tensors and Variables, also inside of containers, as Python's lists and numbers."""
    if isinstance(x, (lm.Tensor, lm.Variable)):
        return x.numpy().tolist()
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


def equal(a, b):
    """Whether two lists have the same arrays."""
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b))
