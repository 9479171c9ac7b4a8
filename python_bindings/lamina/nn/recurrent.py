"""Recurrent layers over sequences [n, length, channels]. Their computations are the C++ ones: one scan each."""
from __future__ import annotations

from .. import _border, _core, errors
from .layer import CoreLayer, Layer


class _Recurrent(CoreLayer):
    _kind, _states = "simple", 1
    _weights = ("kernel", "recurrent_kernel", "bias")
    _read = ("return_sequences", "return_state", "zero_output_for_mask")
    supports_masking = None

    def _make(self, units, *, activation, recurrent_activation, use_bias, kernel_initializer, recurrent_initializer, bias_initializer, go_backwards, dtype,
              unit_forget_bias=False, reset_after=False):
        if isinstance(units, bool) or not isinstance(units, int):
            raise errors.TypeMismatch(f"{type(self).__name__}: units {errors.shown(units)} is not an integer", why="it is the length of the state", fix="pass an int: 32")
        self._computed_by("Recurrent", self._kind, units, activation, recurrent_activation, use_bias, kernel_initializer, recurrent_initializer, bias_initializer,
                          unit_forget_bias, reset_after, go_backwards, dtype, self.name)

    def _over_time(self, x, mask=None, initial_state=None, sequences=False, zeros=False):
        """(the outputs of all steps in the order of x, or None; the list of final states). zeros: outputs are 0 where the mask is false."""
        if initial_state is not None and not isinstance(initial_state, (tuple, list)):
            initial_state = [initial_state]
        sequence, state = self._core.run(x, mask, initial_state, sequences)
        return sequence if mask is None or not (sequences and zeros) else _core.where(_core.expand_dims(mask, -1), sequence, 0), state

    def compute_mask(self, inputs, mask=None):
        return None if mask is None or not self.return_sequences else _core.flip(mask, 1) if self.go_backwards else mask

    def call(self, x, mask=None, initial_state=None):
        sequence, state = self._over_time(x, mask, initial_state, self.return_sequences, self.zero_output_for_mask)
        if self.return_sequences and self.go_backwards:
            sequence = _core.flip(sequence, 1)
        y = sequence if self.return_sequences else state[0]
        return (y, *state) if self.return_state else y


class SimpleRNN(_Recurrent):
    """h = activation(x kernel + h recurrent_kernel + bias), step by step: x [n, t, c] -> h [n, units], or of all steps [n, t, units] with return_sequences.

    Called with mask (bool [n, t]), steps where it is false leave the state as it is; their outputs are those of the step before, with zero_output_for_mask 0. With initial_state, it begins there instead of at zeros. return_state adds the final
    state to the result. go_backwards reads from the last step on, and gives outputs in that order. kernel is [c, units], recurrent_kernel [units, units].
    """

    def __init__(self, units: int, activation="tanh", use_bias: bool = True, kernel_initializer="glorot_uniform", recurrent_initializer="orthogonal",
                 bias_initializer="zeros", return_sequences: bool = False, return_state: bool = False, go_backwards: bool = False, dtype="float32",
                 name: str | None = None, trainable: bool = True,
                 kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None, zero_output_for_mask: bool = False):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=kernel_regularizer, recurrent_kernel=recurrent_regularizer, bias=bias_regularizer)
        self.units, self.return_sequences, self.return_state, self.go_backwards, self.zero_output_for_mask = units, return_sequences, return_state, go_backwards, zero_output_for_mask
        self._make(units, activation=activation, recurrent_activation=None, use_bias=use_bias, kernel_initializer=kernel_initializer,
                   recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer, go_backwards=go_backwards, dtype=dtype)


class LSTM(_Recurrent):
    """Long short-term memory, Hochreiter and Schmidhuber 1997. As SimpleRNN, with two states h and c [n, units]: initial_state is (h, c), and return_state adds both.

    i, f, g, o are the parts of x kernel + h recurrent_kernel + bias, with g through activation and the others through recurrent_activation; c = f c + i g,
    h = o activation(c). kernel is [c, 4 units], recurrent_kernel [units, 4 units]. unit_forget_bias: the bias of f begins at 1.
    """

    _kind, _states = "lstm", 2

    def __init__(self, units: int, activation="tanh", recurrent_activation="sigmoid", use_bias: bool = True, kernel_initializer="glorot_uniform",
                 recurrent_initializer="orthogonal", bias_initializer="zeros", unit_forget_bias: bool = True, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, dtype="float32", name: str | None = None, trainable: bool = True,
                 kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None, zero_output_for_mask: bool = False):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=kernel_regularizer, recurrent_kernel=recurrent_regularizer, bias=bias_regularizer)
        self.units, self.return_sequences, self.return_state, self.go_backwards, self.zero_output_for_mask = units, return_sequences, return_state, go_backwards, zero_output_for_mask
        self._make(units, activation=activation, recurrent_activation=recurrent_activation, use_bias=use_bias, kernel_initializer=kernel_initializer,
                   recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer, go_backwards=go_backwards, dtype=dtype,
                   unit_forget_bias=unit_forget_bias)


class GRU(_Recurrent):
    """Gated recurrent unit, Cho et al. 2014. As SimpleRNN.

    z, r are recurrent_activation of their parts of x kernel + h recurrent_kernel + bias; the candidate is activation(x part + r (h part)) with reset_after, else
    activation(x part + (r h) part); h = z h + (1 - z) candidate. kernel is [c, 3 units], bias [2, 3 units] with reset_after, else [3 units].
    """

    _kind = "gru"

    def __init__(self, units: int, activation="tanh", recurrent_activation="sigmoid", use_bias: bool = True, kernel_initializer="glorot_uniform",
                 recurrent_initializer="orthogonal", bias_initializer="zeros", reset_after: bool = True, return_sequences: bool = False,
                 return_state: bool = False, go_backwards: bool = False, dtype="float32", name: str | None = None, trainable: bool = True,
                 kernel_regularizer=None, recurrent_regularizer=None, bias_regularizer=None, zero_output_for_mask: bool = False):
        super().__init__(name=name, trainable=trainable)
        self._regularize(kernel=kernel_regularizer, recurrent_kernel=recurrent_regularizer, bias=bias_regularizer)
        self.units, self.return_sequences, self.return_state, self.go_backwards, self.zero_output_for_mask = units, return_sequences, return_state, go_backwards, zero_output_for_mask
        self._make(units, activation=activation, recurrent_activation=recurrent_activation, use_bias=use_bias, kernel_initializer=kernel_initializer,
                   recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer, go_backwards=go_backwards, dtype=dtype, reset_after=reset_after)


_MERGED = {"concat": lambda a, b: _core.concat([a, b], -1), "sum": lambda a, b: a + b, "mul": lambda a, b: a * b, "ave": lambda a, b: (a + b) * 0.5, None: lambda a, b: (a, b)}


class Bidirectional(Layer):
    """A recurrent layer and a second one like it, backwards; their outputs are joined by merge_mode: "concat" (side by side), "sum", "mul", "ave", or None (both).

    The second one is `backward_layer`, by default made from the first one's arguments. With return_state the final states of both follow, and initial_state has
    those of both. Outputs of all steps are 0 where a mask is false.
    """

    supports_masking = None
    _unread = ("layer",)

    def __init__(self, layer, merge_mode="concat", backward_layer=None, name: str | None = None, trainable: bool = True):
        super().__init__(name=name, trainable=trainable)
        if not isinstance(layer, _Recurrent):
            raise errors.TypeMismatch(f"Bidirectional: {errors.a_type(layer)} is no recurrent layer", why="it runs one forwards and one backwards", fix="pass lm.nn.LSTM(units)")
        if merge_mode is not None and not isinstance(merge_mode, str):
            raise errors.TypeMismatch(f"Bidirectional: merge_mode is {errors.a_type(merge_mode)}", why="it says how the outputs are joined", fix='pass "concat", "sum", "mul", "ave" or None')
        if merge_mode not in _MERGED:
            raise _core.unknown_name("merge mode", merge_mode, [mode for mode in _MERGED if mode])
        if backward_layer is None:
            config = layer.get_config()
            backward_layer = type(layer)(**config | {"go_backwards": not layer.go_backwards, "name": f"backward_{layer.name}"})
        elif not isinstance(backward_layer, _Recurrent):
            raise errors.TypeMismatch(f"Bidirectional: {errors.a_type(backward_layer)} is no recurrent layer", fix="pass lm.nn.LSTM(units, go_backwards=True)")
        if layer.go_backwards == backward_layer.go_backwards or layer.return_sequences != backward_layer.return_sequences or layer.return_state != backward_layer.return_state:
            raise errors.InvalidArgument("Bidirectional: the two layers do not fit each other", why="one goes backwards, and both return the same", fix="set go_backwards of one of them")
        self.forward_layer, self.backward_layer, self.merge_mode = layer, backward_layer, merge_mode

    def compute_mask(self, inputs, mask=None):
        return mask if self.forward_layer.return_sequences else None

    def call(self, x, mask=None, initial_state=None):
        first, second = self.forward_layer, self.backward_layer
        if initial_state is not None and len(initial_state) != 2 * first._states:
            raise errors.InvalidArgument(f"{self.name}: the initial state has {len(initial_state)} tensors", why="it is that of both layers", fix=f"pass {2 * first._states}")
        states = [None, None] if initial_state is None else [initial_state[:first._states], initial_state[first._states:]]
        outputs, finals = [], []
        for layer, state in zip((first, second), states):
            _core.profiler._enter_layer(layer.name)
            try:
                if not layer.built:
                    layer._build_once((x,), {})
                sequence, final = layer._over_time(x, mask, state, layer.return_sequences, zeros=True)
            finally:
                _core.profiler._leave()
            outputs.append(sequence if layer.return_sequences else final[0])
            finals += final
        y = _MERGED[self.merge_mode](*outputs)
        return (*(y if isinstance(y, tuple) else (y,)), *finals) if first.return_state else y


_border.guard(globals())
