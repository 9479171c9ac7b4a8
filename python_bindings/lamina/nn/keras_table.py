"""What Keras's classes are called here, in one table: layers with their arguments, activations, initializers, losses, metrics, optimizers.

A row's `keys` are Keras's arguments, {key: ours}; `off` are those that Lamina has not, with the values by which they change nothing. None changes nothing anywhere.
What only Lamina has is written as "lamina>name": Lamina reads it, Keras refuses it by that name.
"""
from __future__ import annotations

import dataclasses
from typing import Callable

from .. import losses, metrics, optim
from . import attention, images, layers, merging, normalization, recurrent, regularizers


@dataclasses.dataclass
class Row:
    cls: type
    keys: dict
    off: dict = dataclasses.field(default_factory=dict)  # {key: the values that mean "not used"}
    ignored: tuple = ()  # of no effect once the weights are there: first values that Lamina does not choose, seeds of other generators
    sizes: Callable | None = None  # (config by our names, shape of the input) -> the shapes of its weights
    inside: tuple = ("",)  # the parts of Keras's layer that hold the weights, each as many
    children: tuple = ()  # layers in it


def same(names: str) -> dict:
    return {name: name for name in names.split()}


def pair(value) -> tuple:
    return (value, value) if isinstance(value, int) else tuple(value)


def _dense(c, shape):
    return [(shape[-1], c["units"]), (c["units"],)]


def _conv2d(c, shape):
    return [(*pair(c["kernel_size"]), shape[-1] // c["groups"], c["filters"]), (c["filters"],)]


def _conv2d_transpose(c, shape):
    return [(*pair(c["kernel_size"]), c["filters"] // c["groups"], shape[-1]), (c["filters"],)]


def gaps(c) -> list:
    """What Conv2DTranspose adds between windows that do not reach each other; Keras counts it as output_padding where one is given."""
    return [max(0, s - ((k - 1) * d + 1)) for s, k, d in zip(pair(c.get("strides", 1)), pair(c["kernel_size"]), pair(c.get("dilation_rate", 1)))]


def _conv1d(c, shape):
    size = c["kernel_size"]
    return [(size if isinstance(size, int) else size[0], shape[-1] // c["groups"], c["filters"]), (c["filters"],)]


def _batch_norm(c, shape):
    return [shape[-1:]] * 4


def _layer_norm(c, shape):
    axes = [c["axis"]] if isinstance(c["axis"], int) else c["axis"]
    return [tuple(shape[axis] for axis in axes)] * 2


def _recurrent(gates, states=1):
    def sizes(c, shape):
        return [(shape[-1], gates * c["units"]), (c["units"], gates * c["units"]), (states * gates * c["units"],)]

    return sizes


def _attention(c, shape):
    head = (shape[-1], c["num_heads"], c["key_dim"])
    return [head, head, (shape[-1], c["num_heads"], c.get("value_dim") or c["key_dim"]), (c["num_heads"], c.get("value_dim") or c["key_dim"], c.get("output_size") or shape[-1])]


def _depthwise(c, shape):
    return [(*pair(c["kernel_size"]), shape[-1], c["depth_multiplier"]), (shape[-1] * c["depth_multiplier"],)]


FLOATS = ("float16", "bfloat16", "float32", "float64")
_WEIGHTS = same("use_bias kernel_initializer bias_initializer activation dtype")
_FIRST = {"data_format": ("channels_last",)}
_PLAIN_SCAN = {"stateful": (False,), "unroll": (False,), "dropout": (0, 0.0), "recurrent_dropout": (0, 0.0), "implementation": (1, 2), "time_major": (False,)}
_SCAN = _WEIGHTS | same("units recurrent_initializer return_sequences return_state go_backwards zero_output_for_mask")
_GATED = _SCAN | same("recurrent_activation")
_CONV = _WEIGHTS | same("filters kernel_size strides padding dilation_rate groups")

LAYERS = {
    "Dense": Row(layers.Dense, _WEIGHTS | same("units"), sizes=_dense),
    "Masking": Row(normalization.Masking, same("mask_value")),
    "Flatten": Row(layers.Flatten, {}, _FIRST),
    "Dropout": Row(layers.Dropout, same("rate"), ignored=("seed",)),
    "Activation": Row(layers.Activation, same("activation")),
    "Conv1D": Row(images.Conv1D, _CONV, _FIRST, sizes=_conv1d),
    "Conv2D": Row(images.Conv2D, _CONV, _FIRST, sizes=_conv2d),
    "Conv2DTranspose": Row(images.Conv2DTranspose, _CONV | same("output_padding"), _FIRST, sizes=_conv2d_transpose),
    "MaxPooling2D": Row(images.MaxPool2D, same("pool_size strides padding"), _FIRST),
    "AveragePooling2D": Row(images.AveragePooling2D, same("pool_size strides padding"), _FIRST),
    "GlobalAveragePooling2D": Row(images.GlobalAveragePool2D, same("keepdims"), _FIRST),
    "GlobalMaxPooling2D": Row(images.GlobalMaxPool2D, same("keepdims"), _FIRST),
    "Conv1DTranspose": Row(images.Conv1DTranspose, {key: key for key in _CONV if key != "groups"}, _FIRST | {"output_padding": ()}, sizes=lambda c, shape: _conv1d(c | {"groups": 1}, shape)),
    "DepthwiseConv2D": Row(images.DepthwiseConv2D, same("kernel_size strides padding depth_multiplier dilation_rate use_bias activation depthwise_initializer bias_initializer dtype"), _FIRST,
                           sizes=_depthwise),
    "MaxPooling1D": Row(images.MaxPool1D, same("pool_size strides padding"), _FIRST),
    "AveragePooling1D": Row(images.AveragePooling1D, same("pool_size strides padding"), _FIRST),
    "GlobalAveragePooling1D": Row(images.GlobalAveragePool1D, same("keepdims"), _FIRST),
    "GlobalMaxPooling1D": Row(images.GlobalMaxPool1D, same("keepdims"), _FIRST),
    "UpSampling2D": Row(images.UpSampling2D, same("size"), _FIRST | {"interpolation": ("nearest",)}),
    "ZeroPadding2D": Row(images.ZeroPadding2D, same("padding"), _FIRST),
    "Reshape": Row(layers.Reshape, same("target_shape")),
    "ReLU": Row(layers.ReLU, {}, {"negative_slope": (0, 0.0), "threshold": (0, 0.0)}),
    "LeakyReLU": Row(layers.LeakyReLU, same("negative_slope")),
    "ELU": Row(layers.ELU, same("alpha")),
    "Softmax": Row(layers.Softmax, same("axis")),
    "Add": Row(merging.Add, {}), "Subtract": Row(merging.Subtract, {}), "Multiply": Row(merging.Multiply, {}), "Average": Row(merging.Average, {}),
    "Maximum": Row(merging.Maximum, {}), "Minimum": Row(merging.Minimum, {}), "Concatenate": Row(merging.Concatenate, same("axis")),
    "SimpleRNN": Row(recurrent.SimpleRNN, _SCAN, _PLAIN_SCAN, ("seed",), _recurrent(1), ("cell",)),
    "LSTM": Row(recurrent.LSTM, _GATED | same("unit_forget_bias"), _PLAIN_SCAN, ("seed", "use_cudnn"), _recurrent(4), ("cell",)),
    "GRU": Row(recurrent.GRU, _GATED | same("reset_after"), _PLAIN_SCAN, ("seed", "use_cudnn"), _recurrent(3, 2), ("cell",)),
    "Bidirectional": Row(recurrent.Bidirectional, same("layer merge_mode backward_layer"), children=("forward_layer", "backward_layer")),
    "MultiHeadAttention": Row(
        attention.MultiHeadAttention, same("num_heads key_dim value_dim dropout use_bias kernel_initializer bias_initializer dtype") | {"output_shape": "output_size"},
        {"attention_axes": ([1],), "flash_attention": (False,), "use_gate": (False,)}, ("seed",), _attention, ("query_dense", "key_dense", "value_dense", "output_dense")),
    "GroupNormalization": Row(normalization.GroupNorm, same("groups epsilon center scale dtype"), {"axis": (-1, [-1])}, ("beta_initializer", "gamma_initializer"),
                              lambda c, shape: [shape[-1:]] * 2),
    "RMSNormalization": Row(normalization.RMSNorm, same("epsilon dtype"), {"axis": (-1, [-1])}, sizes=lambda c, shape: [shape[-1:]]),
    "BatchNormalization": Row(
        normalization.BatchNorm, same("momentum epsilon center scale dtype"), {"axis": (-1, [-1]), "synchronized": (False,), "renorm": (False,)},
        ("beta_initializer", "gamma_initializer", "moving_mean_initializer", "moving_variance_initializer", "renorm_momentum"), _batch_norm),
    "LayerNormalization": Row(normalization.LayerNorm, same("axis epsilon center scale dtype"), {"rms_scaling": (False,)},
                              ("beta_initializer", "gamma_initializer"), _layer_norm),
    "Embedding": Row(normalization.Embedding, same("input_dim output_dim embeddings_initializer mask_zero dtype"),
                     sizes=lambda c, shape: [(c["input_dim"], c["output_dim"])]),
}
# What a layer that Lamina writes says of the arguments that it has not.
WRITTEN = {name: {} for name in LAYERS} | {
    "Flatten": {"data_format": "channels_last"}, "Dropout": {"seed": None, "noise_shape": None}, "Activation": {},
    "BatchNormalization": {"axis": -1}, "GroupNormalization": {"axis": -1}, "RMSNormalization": {"axis": -1}, "UpSampling2D": {"data_format": "channels_last", "interpolation": "nearest"},
    "ZeroPadding2D": {"data_format": "channels_last"},
} | {name: {"data_format": "channels_last"} for name in LAYERS if "Conv" in name or "Pool" in name}

# The same functions by the same names. Keras's leaky_relu has another slope, and its gelu_tanh none: they are Lamina's alone.
ACTIVATIONS = frozenset("linear relu tanh sigmoid elu gelu silu softplus selu hard_sigmoid exponential softmax log_softmax".split())
ACTIVATION_ALIASES = {"swish": "silu"}

_SEED = same("seed")
INITIALIZERS = {  # Keras's class -> (ours, {its key: ours})
    "Zeros": ("zeros", {}), "Ones": ("ones", {}), "Constant": ("constant", same("value")),
    "GlorotUniform": ("glorot_uniform", _SEED), "GlorotNormal": ("glorot_normal", _SEED), "HeUniform": ("he_uniform", _SEED), "HeNormal": ("he_normal", _SEED),
    "RandomUniform": ("random_uniform", _SEED | {"minval": "low", "maxval": "high"}), "RandomNormal": ("random_normal", _SEED | same("mean stddev")),
    "OrthogonalInitializer": ("orthogonal", _SEED | same("gain")), "Orthogonal": ("orthogonal", _SEED | same("gain")),
    "lamina>looks_linear": ("looks_linear", _SEED | same("mirror_in mirror_out")),
}
INITIALIZER_ALIASES = {"uniform": "random_uniform", "normal": "random_normal", "one": "ones", "zero": "zeros"}

REGULARIZERS = {"L1": regularizers.L1, "L2": regularizers.L2, "L1L2": regularizers.L1L2}

_LOGITS = (same("from_logits"), {"label_smoothing": (0,), "axis": (-1,), "ignore_class": ()})
LOSSES = {  # Keras's class -> (ours, its keys, what must be off, our name of it)
    "SparseCategoricalCrossentropy": (losses.SparseCrossEntropy, *_LOGITS, "sparse_cross_entropy"),
    "CategoricalCrossentropy": (losses.CategoricalCrossEntropy, *_LOGITS, "categorical_cross_entropy"),
    "BinaryCrossentropy": (losses.BinaryCrossEntropy, *_LOGITS, "binary_cross_entropy"),
    "MeanSquaredError": (losses.MeanSquaredError, {}, {}, "mean_squared_error"),
    "MeanAbsoluteError": (losses.MeanAbsoluteError, {}, {}, "mean_absolute_error"),
    "Huber": (losses.Huber, same("delta"), {}, "huber"),
    "KLDivergence": (losses.KLDivergence, {}, {}, "kl_divergence"),
    "Hinge": (losses.Hinge, {}, {}, "hinge"),
    "CosineSimilarity": (losses.CosineSimilarity, {}, {"axis": (-1,)}, "cosine_similarity"),
}
LOSS_ALIASES = {"mse": "mean_squared_error", "MSE": "mean_squared_error", "mae": "mean_absolute_error", "MAE": "mean_absolute_error", "kld": "kl_divergence", "KLD": "kl_divergence"}
REDUCTIONS = ("sum_over_batch_size", "mean")

ACCURACIES = {"accuracy", "acc", "sparse_categorical_accuracy", "categorical_accuracy", "SparseCategoricalAccuracy", "CategoricalAccuracy"}

# Keras's class -> (ours, {its key: ours}, what the other keys may be). Ours is written as the first class that it has; of TopK the loss decides.
METRICS = {
    "MeanSquaredError": (metrics.MeanSquaredError, {}, {}), "MeanAbsoluteError": (metrics.MeanAbsoluteError, {}, {}), "BinaryAccuracy": (metrics.BinaryAccuracy, same("threshold"), {}),
    "Precision": (metrics.Precision, {"thresholds": "threshold"}, {"top_k": (None,), "class_id": (None,)}),
    "Recall": (metrics.Recall, {"thresholds": "threshold"}, {"top_k": (None,), "class_id": (None,)}),
    "AUC": (metrics.AUC, {"num_thresholds": "thresholds"}, {"curve": (None, "ROC"), "summation_method": (None, "interpolation"), "multi_label": (None, False), "num_labels": (None,), "label_weights": (None,),
                                                            "from_logits": (None, False)}),
    "F1Score": (metrics.F1, same("threshold"), {"average": ("micro",)}),
    "R2Score": (metrics.R2, {}, {"class_aggregation": (None, "uniform_average"), "num_regressors": (None, 0)}),
    "TopKCategoricalAccuracy": (metrics.TopK, same("k"), {}), "SparseTopKCategoricalAccuracy": (metrics.TopK, same("k"), {}),
}
METRIC_ALIASES = {"mse": "mean_squared_error", "MSE": "mean_squared_error", "mae": "mean_absolute_error", "MAE": "mean_absolute_error"}

OPTIMIZER_OFF = {"use_ema": (False,), "amsgrad": (False,), "weight_decay": (0, False)}
OPTIMIZER_IGNORED = ("ema_momentum",)
_ADAM = same("learning_rate beta_1 beta_2 epsilon weight_decay")
# Keras's class -> (ours, its keys, our slots in Keras's order: each group's slots lie together, variable by variable). Keras counts the steps of all of them.
OPTIMIZERS = {
    "SGD": (optim.SGD, same("learning_rate momentum nesterov"), (("momentum",),)),
    "RMSprop": (optim.RMSprop, same("learning_rate rho momentum epsilon centered"), (("velocity",), ("momentum",), ("average_gradient",))),
    "Adagrad": (optim.Adagrad, same("learning_rate initial_accumulator_value epsilon"), (("accumulator",),)),
    "Lion": (optim.Lion, same("learning_rate beta_1 beta_2 weight_decay"), (("momentum",),)),
    "Adam": (optim.Adam, _ADAM, (("momentum", "velocity"),)),
    "AdamW": (optim.AdamW, _ADAM, (("momentum", "velocity"),)),
}
_SWITCHES = ("nesterov", "centered", "from_logits", "mirror_in", "mirror_out")


def switched(config: dict) -> dict:
    """The config with true and false for what is a switch."""
    return {key: bool(value) if key in _SWITCHES else value for key, value in config.items()}
