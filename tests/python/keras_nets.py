"""Networks for test_keras_files.py: a model, and inputs for it. keras_opens() runs keras_worker.py."""
import os
import subprocess
import sys

import pytest

import lamina as lm

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHONS = [os.environ.get("LAMINA_PEERS_PYTHON"), os.path.join(os.path.dirname(os.path.dirname(HERE)), ".venv-peers", "bin", "python"), sys.executable]
nn = lm.nn


def with_keras():
    for python in filter(None, PYTHONS):
        if os.path.exists(python) and subprocess.run([python, "-c", "import importlib.util as u, sys; sys.exit(not (u.find_spec('keras') and u.find_spec('h5py')))"], capture_output=True).returncode == 0:
            return python
    pytest.skip("no interpreter has Keras 3: ./dev bench makes .venv-peers, LAMINA_PEERS_PYTHON names another")


def keras_opens(folder, python):
    """Lets Keras open the files of the folder."""
    run = subprocess.run([python, os.path.join(HERE, "keras_worker.py"), str(folder)], capture_output=True, text=True, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
    assert run.returncode == 0, run.stdout + run.stderr
    print(run.stdout)


def recurrent():
    x = nn.Input((6, 3))
    h = nn.Bidirectional(nn.LSTM(4, return_sequences=True, name="inner"), "ave")(x)
    made = [nn.GRU(2)(h), nn.GRU(3, reset_after=False, go_backwards=True)(h), nn.SimpleRNN(3, "relu", return_sequences=True, use_bias=False)(h),
            nn.LSTM(3, unit_forget_bias=False, recurrent_activation="hard_sigmoid")(h), nn.Bidirectional(nn.GRU(2))(x)]
    return nn.Model(x, [*made, *nn.LSTM(2, return_state=True)(h)]), [lm.random.normal((2, 6, 3))]


def attention():
    x, y = nn.Input((5, 4)), nn.Input((7, 6))
    a = nn.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
    b = nn.MultiHeadAttention(3, 2, value_dim=4, use_bias=False, dropout=0.1)(a, y)
    c = nn.MultiHeadAttention(1, 2, output_size=3)(b, y)
    return nn.Model([x, y], [nn.RMSNorm(1e-4)(nn.Add()([x, b])), nn.GroupNorm(2)(b), c]), [lm.random.normal((2, 5, 4)), lm.random.normal((2, 7, 6))]


def more_images():
    x = nn.Input((6, 6, 4))
    h = nn.ZeroPadding2D(((1, 0), (2, 1)))(nn.DepthwiseConv2D(3, 1, "same", 2, activation="relu")(nn.GroupNorm(4)(x)))
    line = nn.Reshape((18, -1))(nn.UpSampling2D((1, 2))(x))
    made = [nn.MaxPool1D(3, 2)(line), nn.AveragePooling1D(2, padding="same")(line), nn.GlobalMaxPool1D()(line), nn.GlobalAveragePool1D(keepdims=True)(line), nn.Conv1DTranspose(3, 4, 2)(line),
            nn.Conv1DTranspose(3, 2, 3, "same")(line)]
    return nn.Model(x, [h, *made]), [lm.random.normal((2, 6, 6, 4))]


def merged():
    a, b = nn.Input((4,)), nn.Input((4,))
    made = [nn.Add()([a, b, a]), nn.Subtract()([a, b]), nn.Multiply()([a, b]), nn.Average()([a, b]), nn.Maximum()([a, b]), nn.Minimum()([a, b]), nn.Concatenate()([a, b])]
    return nn.Model([a, b], [layer()(made[0]) for layer in (nn.ReLU, nn.Sigmoid, nn.Tanh, nn.GELU, nn.SiLU, nn.SELU, nn.Softplus, nn.Softmax, nn.LeakyReLU, nn.ELU)] + made), \
        [lm.random.normal((3, 4)), lm.random.normal((3, 4))]


def masked():
    ids, x = nn.Input((5,), "int32"), nn.Input((5, 3))
    a, b, c = nn.Embedding(6, 4, mask_zero=True)(ids), nn.Embedding(6, 4)(ids), nn.LSTM(4, return_sequences=True)(nn.Masking(1.0)(x))
    zeros = nn.LSTM(4, return_sequences=True, zero_output_for_mask=True)(a)
    joined = [merge([a, other]) for merge in (nn.Average(), nn.Multiply(), nn.Minimum(), nn.Concatenate(), nn.Concatenate(axis=1)) for other in (b, c)]
    made = [nn.Bidirectional(nn.GRU(2, return_sequences=True), mode)(a) for mode in ("concat", "ave")]
    return nn.Model([ids, x], [*made, zeros, nn.GlobalAveragePooling1D()(c), nn.GRU(2)(nn.MultiHeadAttention(2, 3)(a, a)), *(nn.SimpleRNN(3)(one) for one in joined)]), \
        [lm.constant([[3, 1, 4, 0, 0], [2, 5, 0, 0, 0], [1, 2, 3, 4, 5]], "int32"), lm.round(lm.random.normal((3, 5, 3)))]


def regularized():
    R = nn.regularizers
    x = nn.Input((6, 4))
    h = nn.Bidirectional(nn.GRU(2, return_sequences=True, kernel_regularizer="l2", recurrent_regularizer=R.L1(0.5)))(nn.Dense(4, bias_regularizer=R.L1L2(0.25, 0.125))(x))
    return nn.Model(x, nn.BatchNorm(gamma_regularizer="l1_l2")(nn.Conv1D(2, 3, kernel_regularizer=R.L2(0.5))(nn.LayerNorm(beta_regularizer=R.L1)(h)))), [lm.random.normal((2, 6, 4))]
