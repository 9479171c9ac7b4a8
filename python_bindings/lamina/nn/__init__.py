"""Layers and models."""
from .. import _elsewhere
from . import initializers, regularizers
from .attention import MultiHeadAttention
from .callbacks import (
    Callback, CSVLogger, EarlyStopping, History, LambdaCallback, LearningRateScheduler, ModelCheckpoint, ReduceLROnPlateau, TensorBoard, TerminateOnNaN,
)
from .ensemble import Ensemble
from .images import (
    AveragePooling1D, AveragePooling2D, AvgPool1D, AvgPool2D, Conv1D, Conv1DTranspose, Conv2D, Conv2DTranspose, DepthwiseConv2D, GlobalAveragePool1D,
    GlobalAveragePool2D, GlobalAveragePooling1D, GlobalAveragePooling2D, GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPooling1D, GlobalMaxPooling2D, MaxPool1D,
    MaxPool2D, MaxPooling1D, MaxPooling2D, UpSampling2D, ZeroPadding2D,
)
from .keras_file import load_file, save_file
from .layer import Layer, policy, set_policy
from .layers import ELU, GELU, SELU, Activation, Dense, Dropout, Flatten, Lambda, LeakyReLU, ReLU, Reshape, Sigmoid, SiLU, Softmax, Softplus, Tanh
from .merging import Add, Average, Concatenate, Maximum, Minimum, Multiply, Subtract
from .model import Model, Sequential
from .normalization import (
    BatchNorm, BatchNormalization, Embedding, GroupNorm, GroupNormalization, LayerNorm, LayerNormalization, Masking, RMSNorm, RMSNormalization,
)
from .recurrent import GRU, LSTM, Bidirectional, SimpleRNN
from .stack import Stack, stack
from .symbolic import Input

__all__ = [
    "Activation", "Add", "Average", "AveragePooling1D", "AveragePooling2D", "AvgPool1D", "AvgPool2D", "BatchNorm", "BatchNormalization", "Bidirectional",
    "CSVLogger", "Callback", "Concatenate", "Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Dense", "DepthwiseConv2D", "Dropout", "ELU",
    "EarlyStopping", "Embedding", "Ensemble", "Flatten", "GELU", "GRU", "GlobalAveragePool1D", "GlobalAveragePool2D", "GlobalAveragePooling1D", "GlobalAveragePooling2D",
    "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GroupNorm", "GroupNormalization", "History", "Input", "LSTM", "Lambda",
    "LambdaCallback", "Layer", "LayerNorm", "LayerNormalization", "LeakyReLU", "LearningRateScheduler", "Masking", "MaxPool1D", "MaxPool2D", "MaxPooling1D",
    "MaxPooling2D", "Maximum", "Minimum", "Model", "ModelCheckpoint", "MultiHeadAttention", "Multiply", "RMSNorm", "RMSNormalization", "ReLU",
    "ReduceLROnPlateau", "Reshape", "SELU", "Sequential", "SiLU", "Sigmoid", "SimpleRNN", "Softmax", "Softplus", "Stack", "Subtract", "Tanh", "TensorBoard",
    "TerminateOnNaN", "UpSampling2D", "ZeroPadding2D", "initializers", "load_file", "policy", "regularizers", "save_file", "set_policy", "stack",
]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers would take any name for one that there is
    __getattr__, __dir__ = _elsewhere.names_of("lm.nn", __all__)
