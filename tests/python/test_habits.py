"""What is said about attributes, arguments and orders of arguments that other frameworks have: lamina/_habits.py."""
import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import lamina as lm
from lamina import _habits
from test_names import leads_somewhere

x, v, net, adam = lm.ones((3, 4)), lm.Variable([1.0, 2.0]), lm.nn.Sequential([lm.nn.Dense(2)]), lm.optim.Adam(0.1)
TABLES = [(x.at[0], _habits.AT), (lm.data.Dataset.range(3), _habits.DATASET), (lm.function(abs), _habits.FUNCTION), (x, _habits.TENSOR), (v, _habits.VARIABLE), (net, _habits.LAYER), (adam, _habits.OPTIMIZER)]


@pytest.mark.parametrize("owner, table", TABLES, ids=["At", "Dataset", "Function", "Tensor", "Variable", "Layer", "Optimizer"])
def test_an_attribute_of_another_framework_is_told_what_to_write(owner, table):
    for name, written in table.items():
        assert not hasattr(owner, name), name
        with pytest.raises(AttributeError) as caught:
            getattr(owner, name)
        text = str(caught.value)
        assert text.startswith(f"'{type(owner).__name__}' object has no attribute '{name}'\n  where: {__file__}:") and text.endswith(f"  fix:   {written if written.startswith(('use', 'leave')) else 'write ' + written}")
        assert leads_somewhere(written), (name, written)


@pytest.mark.parametrize("owner, name, fix", [
    (x, "matmul", "write lm.matmul(x, b)"), (x, "unsqueeze", "write lm.expand_dims(x, axis)"), (x, "exp", "write lm.exp(x)"), (x, "permute", "write lm.transpose(x)"), (x, "clamp", "write lm.clip(x)"), (x, "numel", "write x.size"),
    (x, "add_", "write x = lm.add(x, b): a tensor never changes"), (x, "Sum", "did you mean 'sum'?"), (x, "argMax", "did you mean 'argmax'?"), (x, "masked_fill", "write lm.where(mask, value, x)"), (v, "reshape", "write v.read().reshape"),
    (v, "astype", "write v.read().astype"), (v, "exp", "write lm.exp(v)"), (v, "mul_", "write v.assign(value)"), (net, "trainable_variable", "did you mean 'trainable_variables'?"), (adam, "apply_gradient", "did you mean 'apply_gradients'?")])
def test_functions_in_place_of_methods_and_misspelt_names(owner, name, fix):
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert str(caught.value).endswith(f"  fix:   {fix}")


def test_other_names_and_private_ones_are_plain_errors():
    for owner in (x, v, net, adam):
        for name in ("quantum_flux", "_private", "__array_struct__", "_repr_latex_"):
            assert not hasattr(owner, name) and getattr(owner, name, 7) == 7
            with pytest.raises(AttributeError, match=f"^'{type(owner).__name__}' object has no attribute '{name}'$"):
                getattr(owner, name)
    assert np.asarray(x).shape == (3, 4) and pickle.loads(pickle.dumps(x)).shape == (3, 4) and copy.deepcopy(net).layers[0].units == 2


def error(call):
    with pytest.raises(lm.errors.TypeMismatch) as caught:
        call()
    assert __file__ in caught.value.where and caught.value.fix in str(caught.value)
    return caught.value.fix


@pytest.mark.parametrize("call, fix", [
    (lambda: lm.sum(x, dim=1), "write axis="), (lambda: x.max(dim=1), "write axis="), (lambda: lm.mean(x, keepdim=True), "write keepdims="), (lambda: lm.concat([x, x], dim=0), "write axis="), (lambda: lm.softmax(x, dim=-1), "write axis="),
    (lambda: lm.optim.SGD(lr=0.1), "write learning_rate="), (lambda: lm.optim.Adam(betas=(0.9, 0.99)), "write beta_1="), (lambda: lm.optim.Adam(eps=1e-8), "write epsilon="), (lambda: lm.one_hot([0], depth=3), "write classes="),
    (lambda: lm.one_hot([0], num_classes=3), "write classes="), (lambda: lm.clip(x, min=0.0), "write low="), (lambda: lm.Variable(1.0, requires_grad=False), "write trainable="), (lambda: lm.vmap(lm.sin, in_dims=0), "write in_axes="),
    (lambda: lm.random.normal((2,), stddev=2.0), "write deviation="), (lambda: lm.zeros((2, 3), device="gpu"), 'leave it out, and write with lm.device("gpu:0"): around the call'), (lambda: lm.ones((2,), dtyp=lm.int32), "write dtype="),
    (lambda: lm.nn.Dense(out_features=3), "write units="), (lambda: lm.nn.Conv2D(8, 3, stride=2), "write strides="), (lambda: lm.data.Dataset.range(3).map(lm.sin, num_parallel_calls=2), "write parallel="),
    (lambda: lm.data.Dataset.range(3).batch(2, drop_last=True), "write drop_remainder="), (lambda: lm.nn.MultiHeadAttention(embed_dim=8, num_heads=2), "leave it out: the first call says it; key_dim is the size of one head"),
    (lambda: lm.nn.Dense(3, activity_regularizer="l1"), "leave it out, and add the penalty of the outputs to the loss in a loop of your own"), (lambda: lm.nn.Embedding(num_embeddings=3, embedding_dim=2), "write input_dim="),
    (lambda: lm.nn.ModelCheckpoint("a.keras", save_weights_only=True), "leave it out: a path that ends in .safetensors gets the weights alone"), (lambda: net.fit(x, x, epoch=3), "write epochs="),
    (lambda: lm.pad(x, 1, constant_values=2), "write value="), (lambda: lm.function(abs, jit_compile=True), "leave it out: every traced function is compiled"), (lambda: lm.tanh(x, quantum=3), "it may be one of: x"),
    (lambda: lm.optim.Adam(1e-3, clipnorm=1.0), "leave it out, and clip the gradients in a loop of your own: lm.optim.clip_by_norm(gradients, limit)"), (lambda: net.fit(x, x, validation_steps=3), "leave it out, and pass validation_data=dataset.take(n)"),
    (lambda: lm.constant([1.0], requires_grad=True), "leave it out: tapes watch Variables, and lm.grad takes any argument")])
def test_an_argument_of_another_framework_is_told_its_name(call, fix):
    assert error(call) == fix


@pytest.mark.parametrize("call, fix", [
    (lambda: lm.zeros(2, 3), "pass the shape as one tuple: zeros((2, 3))"), (lambda: lm.ones(2, 3, dtype=lm.float32), "pass the shape as one tuple: ones((2, 3))"), (lambda: lm.concat(x, x), "pass the parts as one list: concat([a, b])"),
    (lambda: lm.stack(x, x), "pass the parts as one list: stack([a, b])"), (lambda: lm.transpose(x, 0, 1), "write lm.swapaxes(x, 0, 1), or transpose with all axes as one tuple"), (lambda: lm.max(x, x), "write lm.maximum(a, b): max is over the elements of one tensor"),
    (lambda: x.to(lm.float64), "write x.astype(lm.float64)"), (lambda: lm.nn.Sequential(lm.nn.Dense(1), lm.nn.Dense(2)), "pass the layers as one list: Sequential([first, second])"), (lambda: lm.nn.Dense(3, 4), "write Dense(4): the first call says how many inputs there are"),
    (lambda: lm.nn.LSTM(3, 4), "write LSTM(4): the first call says how many inputs there are"), (lambda: lm.random.normal(lm.random.key(0), (2, 3)), "write normal((2, 3), key=key): the shape comes first"),
    (lambda: lm.random.normal(0.0, 1.0, (2,)), "write normal((2,), 0.0, 1.0): the shape comes first"), (lambda: lm.nn.Sequential([lm.relu]), "write lm.nn.Lambda(lm.relu), or activation= of the layer before"), (lambda: lm.nn.Sequential([lm.nn.ReLU]), "write ReLU(...)"),
    (lambda: lm.optim.Adam([v]), "write Adam(learning_rate): apply_gradients is given the Variables"), (lambda: lm.optim.SGD([v], learning_rate=0.1), "write SGD(learning_rate): apply_gradients is given the Variables"),
    (lambda: lm.save_tensors({"x": x}, "x.safetensors"), "write save_tensors('x.safetensors', tensors): the path comes first"), (lambda: lm.save({"x": x}, "x"), "write lm.save_tensors(path, tensors), or lm.save_weights(net, path) for the weights of a model"),
    (lambda: lm.nn.initializers.glorot_normal()(lm.random.key(0), (2, 3)), "leave out the key, and pass the shape (2, 3) first, or seed="), (lambda: lm.Tensor([1.0]), "write lm.constant(values)")])
def test_arguments_in_another_order_are_told_ours(call, fix):
    assert error(call) == fix


def test_texts_of_the_core_name_what_to_write():
    for call, fix in ((lambda: lm.device("cuda"), "write gpu"), (lambda: lm.device("cuda:1"), "write gpu:1"), (lambda: x.to("cuda:0"), "write gpu:0"), (lambda: lm.nn.Dense(2, "ReLU"), "did you mean 'relu'?"),
                      (lambda: lm.nn.Dense(2, "quantum"), "use one of these"), (lambda: bool(x > 0), "take one element, reduce it as with all() or sum(), or read it as an array"),
                      (lambda: lm.losses.CategoricalCrossentropy()(lm.constant([0, 1]), lm.ones((2, 4))), "pass one-hot targets, or class numbers to sparse_categorical_crossentropy"),
                      (lambda: lm.losses.mse(lm.ones(2), lm.ones((2, 4))), "pass targets of the predictions' shape")):
        with pytest.raises(lm.errors.Error) as caught:
            call()
        assert caught.value.fix == fix


def test_metrics_of_keras_are_told_their_methods():
    metric = lm.metrics.Accuracy()
    for name, fix in (("update_state", "write metric.update(metric.measure(labels, predictions), len(labels))"), ("reset_state", "write metric.reset()")):
        with pytest.raises(AttributeError) as caught:
            getattr(metric, name)
        assert str(caught.value).endswith(f"  fix:   {fix}")
    for call, fix in ((lambda: lm.metrics.Mean()(3.0), "write metric.update(value)"), (lambda: metric([0], [[1.0, 0.0]]), "write metric.update(metric.measure(labels, predictions), len(labels))")):
        with pytest.raises(lm.errors.NotDefined) as caught:
            call()
        assert caught.value.fix == fix
    metric.update(metric.measure([0, 1], [[0.9, 0.1], [0.8, 0.2]]), 2)
    assert metric.result() == 0.5


def test_swapped_arguments_of_losses_and_transpose():
    for call, fix in ((lambda: lm.losses.SparseCrossEntropy()(lm.ones((2, 3)), lm.constant([0, 1])), "the labels come first: pass (y_true, y_pred)"),
                      (lambda: lm.ones((2, 3, 4)).transpose(1, 2), "write lm.swapaxes(x, 1, 2), or transpose with all axes as one tuple")):
        with pytest.raises(lm.errors.Error) as caught:
            call()
        assert caught.value.fix == fix


def test_right_calls_are_not_touched():
    assert lm.zeros((2, 3)).shape == (2, 3) and lm.ones(2).shape == (2,) and lm.max(x, 0).shape == (4,) and lm.concat([x, x], 1).shape == (3, 8) and lm.nn.Dense(3, "relu").units == 3
    fix = error(lambda: lm.concat(x, 1.5))
    assert fix == "pass an int"


def test_a_layer_with_forward_is_told_to_rename_it():
    class Torch(lm.nn.Layer):
        def forward(self, x):
            return x

    class Empty(lm.nn.Model):
        pass

    for layer, fix in ((Torch(), "rename forward to call"), (Empty(), "define call(self, inputs) in the class")):
        with pytest.raises(lm.errors.NotDefined) as caught:
            layer(x)
        assert caught.value.fix == fix and isinstance(caught.value, NotImplementedError) and __file__ in caught.value.where


def test_fit_does_not_pass_over_a_train_step_of_ones_own():
    class Own(lm.nn.Model):
        def __init__(self):
            super().__init__()
            self.d = lm.nn.Dense(1)

        def call(self, x):
            return self.d(x)

        def train_step(self, data):
            raise AssertionError

    model = Own()
    model.compile("adam", "mse")
    with pytest.raises(lm.errors.StateError, match="defines train_step.., which fit does not call"):
        model.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"))


def test_weights_that_do_not_exist_yet_are_no_misspelt_name():
    for layer, name in ((lm.nn.Dense(2), "kernel"), (lm.nn.BatchNorm(), "gamma"), (lm.nn.Embedding(3, 2), "embeddings")):
        with pytest.raises(AttributeError, match="no attribute .* yet\n.*\n.*from the first call on"):
            getattr(layer, name)
        assert not hasattr(layer, name)


def test_fit_and_predict_take_what_keras_takes(capsys):
    model = lm.nn.Sequential([lm.nn.Dense(1)])
    model.compile("sgd", "mse")
    a, b = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    model.fit(a, b, verbose="auto", callbacks=None, validation_data=[a, b])
    assert "val_loss" in capsys.readouterr().out
    stop = lm.nn.EarlyStopping("loss", patience=1, min_delta=1e9, verbose=1)
    assert len(model.fit(a, b, epochs=5, verbose=0, callbacks=stop).history["loss"]) == 2
    assert capsys.readouterr().out == "Epoch 2: stopped, loss has not become better for 1 epochs\n"
    assert model.predict(a, verbose=0).shape == (4, 1) and capsys.readouterr().out == ""
    assert model.predict(a, batch_size=2, verbose=1).shape == (4, 1) and "2/2 [====" in capsys.readouterr().out
    with pytest.raises(lm.errors.TypeMismatch, match=r"^Model.fit: there is no argument 'epoch'"):
        model.fit(a, b, epoch=3)


def test_a_checkpoint_may_say_what_it_writes(tmp_path, capsys):
    model = lm.nn.Sequential([lm.nn.Dense(1)])
    model.compile("sgd", "mse")
    path = str(tmp_path / "net.safetensors")
    model.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0, callbacks=[lm.nn.ModelCheckpoint(path, verbose=1)])
    assert capsys.readouterr().out == f"Epoch 1: saved {path}\n"


def test_fit_compares_the_numbers_of_rows():
    model = lm.nn.Sequential([lm.nn.Dense(1)])
    model.compile("adam", "mse")
    a, b = np.ones((4, 2), "float32"), np.ones((5, 1), "float32")
    for call in (lambda: model.fit(a, b), lambda: model.evaluate(a, b), lambda: model.fit([a, a], b), lambda: model.fit(a, b[:4], sample_weight=np.ones(5, "float32")), lambda: model.fit(a.tolist(), b)):
        with pytest.raises(lm.errors.InvalidArgument, match=r"x has 4 rows.* has 5 rows"):
            call()
    for wrong in (0, -1):
        with pytest.raises(lm.errors.InvalidArgument, match="batch_size"):
            model.fit(a, b[:4], batch_size=wrong)
    for wrong in (2.0, True):
        with pytest.raises(lm.errors.TypeMismatch, match="'batch_size' is a"):
            model.fit(a, b[:4], batch_size=wrong)


def test_cond_takes_operands_as_switch_does():
    for pred in (True, lm.constant(True)):
        for call in (lm.cond, lm.function(lambda *given: lm.cond(pred, lambda a, b: a + b, lambda a, b: a - b, *given))):
            given = (lm.constant(3), lm.constant(1))
            assert int(call(pred, lambda a, b: a + b, lambda a, b: a - b, *given) if call is lm.cond else call(*given)) == 4
    assert float(lm.grad(lambda a: lm.cond(a > 1, lambda a: a * a, lambda a: a, a))(lm.constant(3.0))) == 6


def test_parts_of_the_core_can_be_imported_by_name():
    program = "import lamina.random as random, lamina.config, lamina.cuda\nfrom lamina.random import normal\nimport lamina as lm\nassert random is lm.random and normal((2,)).shape == (2,)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, env={"PYTHONPATH": ":".join(sys.path)}).returncode == 0


def test_optimizers_are_shown_by_name_and_rate():
    assert repr(lm.optim.SGD(0.25)) == "<lm.optim.SGD, learning rate 0.25>"
    shown = []
    lm.function(lambda x: shown.append(repr(adam)) or x)(x)
    assert shown[0].startswith("<lm.optim.Adam")


def test_a_number_without_a_text_takes_no_advice_along():
    with pytest.raises(lm.errors.TypeMismatch, match="'units' is a str, 'a'"):
        lm.nn.Dense("a", 10**5000)
