"""lm.quantize: models whose weights are numbers of 8 bits, for inference."""
from __future__ import annotations

from . import _border


def quantize(model, data):
    """A copy of a model for inference, whose large weights are int8: a Module that is called like the model, of about a quarter of its bytes. lm.save,
    lm.onnx.save and lm.export_c write it with these weights.

    model: a layer or model whose weights exist, a function or lm.function, one of lm.load, or a network of lm.onnx.load. Each product of float32 by a
    Variable (matmul, conv2d and its transpose) gets int8 weights with a scale for each output channel, and its inputs are rounded to 256 steps; in loops and
    branches the weights alone. The rest stays as it is.
    data: inputs like those in use, for which the steps are chosen: an array or tensor, a list of batches or a lm.data.Dataset. A batch is what one call
    takes: a tensor, or a tuple of the arguments; of a layer or model its inputs, and what follows them in a Dataset's tuples is not used, as in predict().
    The result's `report` is a dict of figures, which print() shows: bytes before and after, and how far the results are from the model's on this data.
    Raises InvalidArgument without data, without such a product, and for a function that trains or draws; SignatureMismatch for data of other shapes;
    StateError for a model without weights.
    """
    from ._quantized import quantized

    return quantized(model, data)


_border.guard(globals())
