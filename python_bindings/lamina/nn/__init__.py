"""Layers and models."""
from . import initializers
from .callbacks import Callback, History
from .images import (
    AveragePooling2D, AvgPool2D, Conv1D, Conv2D, Conv2DTranspose, GlobalAveragePool2D, GlobalAveragePooling2D, GlobalMaxPool2D,
    GlobalMaxPooling2D, MaxPool2D, MaxPooling2D,
)
from .keras_file import load_file, save_file
from .layer import Layer
from .layers import Activation, Dense, Dropout, Flatten
from .model import Model, Sequential
from .normalization import BatchNorm, BatchNormalization, Embedding, LayerNorm, LayerNormalization
from .stack import Stack, stack
from .symbolic import Input

__all__ = [
    "Activation", "AveragePooling2D", "AvgPool2D", "BatchNorm", "BatchNormalization", "Callback", "Conv1D", "Conv2D", "Conv2DTranspose", "Dense",
    "Dropout", "Embedding", "Flatten", "GlobalAveragePool2D", "GlobalAveragePooling2D", "GlobalMaxPool2D", "GlobalMaxPooling2D", "History", "Input",
    "Layer", "LayerNorm", "LayerNormalization", "MaxPool2D", "MaxPooling2D", "Model", "Sequential", "Stack", "initializers", "load_file", "save_file", "stack",
]
