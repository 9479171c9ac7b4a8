"""Layers and models."""
from . import initializers
from .callbacks import Callback, History
from .layer import Layer
from .layers import Activation, Dense, Dropout, Flatten
from .model import Model, Sequential
from .stack import Stack, stack
from .symbolic import Input

__all__ = ["Activation", "Callback", "Dense", "Dropout", "Flatten", "History", "Input", "Layer", "Model", "Sequential", "Stack", "initializers", "stack"]
