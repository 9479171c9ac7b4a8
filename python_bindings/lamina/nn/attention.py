"""Attention. Its computation is the C++ one."""
from __future__ import annotations

from .. import _border, _core, errors
from . import masks
from .layer import Layer, shape_of


class MultiHeadAttention(Layer):
    """Vaswani et al. 2017. query [n, q, d], value [n, k, e] and key (by default the value) -> [n, q, output_size], by default d.

    Each head projects all three, and adds up the values with the weights softmax(query . key / sqrt(key_dim)). attention_mask: bool that broadcasts to [n, q, k] or
    [n, heads, q, k], true where a query may look; use_causal_mask: only at keys up to its own place. return_attention_scores adds the weights [n, heads, q, k]. `dropout`
    applies to the weights in training. Keys that a mask of value or key leaves out get no weight, and the result has the query's mask. The kernels are [d, heads, key_dim], ..., [heads, value_dim, output_size].
    """

    _weights = tuple(f"{part}_{kind}" for part in ("query", "key", "value", "output") for kind in ("kernel", "bias"))
    supports_masking = None

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, dropout: float = 0.0, use_bias: bool = True, output_size: int | None = None,
                 kernel_initializer="glorot_uniform", bias_initializer="zeros", dtype="float32", name: str | None = None, trainable: bool = True):
        super().__init__(name=name, trainable=trainable)
        for size in ({"value_dim": value_dim}, {"output_size": output_size}):
            if None not in size.values():
                errors.in_range("MultiHeadAttention", "it is a length", 1, **size)
        self.num_heads, self.key_dim = num_heads, key_dim
        self._computed_by("MultiHeadAttention", num_heads, key_dim, value_dim or 0, output_size or 0, dropout, use_bias, kernel_initializer, bias_initializer, dtype, self.name)

    def _build_once(self, args, kwargs):
        given = dict(zip(("query", "value", "key"), args)) | {name: kwargs[name] for name in ("query", "value", "key") if kwargs.get(name) is not None}
        given = {name: self._input_of(value) for name, value in given.items() if name == "query" or value is not None}
        self._shapes = [shape_of(given.get(name, given.get("value", given.get("query")))) for name in ("query", "value", "key")]
        super()._build_once(args, kwargs)

    def build(self, input_shape):
        self._build_core(*getattr(self, "_shapes", [input_shape] * 3))

    def _core_weight(self, name):
        place = self._weights.index(name)
        return (self._core.bias if place % 2 else self._core.kernel)(place // 2)

    def compute_mask(self, inputs, mask=None):
        return mask

    def call(self, query, value, key=None, attention_mask=None, return_attention_scores: bool = False, use_causal_mask: bool = False, training=False):
        keys = masks.of(value if key is None else key)
        if masks.any_is_there(keys):
            keys = keys[:, None, None, :]  # of every head and query
            attention_mask = keys if attention_mask is None else _core.logical_and(keys, _core.expand_dims(attention_mask, 1) if len(attention_mask.shape) == 3 else attention_mask)
        output, weights = self._core.attend(query, value, key, attention_mask, use_causal_mask, bool(training))
        return (output, weights) if return_attention_scores else output


_border.guard(globals())
