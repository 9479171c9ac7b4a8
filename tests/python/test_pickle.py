"""Variables, layers, models and optimizers go through pickle and copy.deepcopy; training goes on with the same bits."""
import copy, io, pickle, pickletools, threading
import numpy as np
import pytest
import lamina as lm
nn = lm.nn


def pickled(value):
    return pickle.loads(pickle.dumps(value))


both = pytest.mark.parametrize("through", [pickled, copy.deepcopy], ids=["pickle", "deepcopy"])
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((48, 6)).astype("float32"), rng.standard_normal((48, 2)).astype("float32")


def bits(model):
    return [w.tobytes() for w in model.get_weights()]


def sequential():
    return nn.Sequential([nn.Dense(8, "relu", kernel_initializer=nn.initializers.he_normal(3)), nn.BatchNorm(), nn.Dropout(0.3), nn.Dense(2, lm.tanh)])


def with_input():
    return nn.Sequential([nn.Input((6,)), nn.Dense(8), nn.LayerNorm(), nn.ReLU(), nn.Dense(2)])


def functional():
    x = nn.Input((6,))
    shared = nn.Dense(6, "tanh")
    h = shared(shared(x)) + lm.relu(x) * 0.5
    return nn.Model(x, nn.Dense(2)(nn.Concatenate()([h, lm.matmul(h.T, h).sum() * 0.001 + h.reshape(-1, 6)])))


class Own(nn.Model):
    def __init__(self):
        super().__init__()
        self.parts = [nn.Dense(5, "gelu"), {"head": nn.Dense(2)}]
        self.scale = self.add_weight((2,), "ones", name="scale")
        self.step = lm.function(self.one)

    def one(self, x):
        return self.parts[1]["head"](self.parts[0](x)) * self.scale

    def call(self, x):
        return self.step(x)


@both
@pytest.mark.parametrize("build", [sequential, with_input, functional, Own])
@pytest.mark.parametrize("optimizer", ["sgd", "rmsprop", "adam", "adamw", "adagrad", "nadam", "lion", "switches"])
def test_a_compiled_model_trains_on_with_the_same_bits(through, build, optimizer):
    lm.random.set_seed(1)
    first = build()
    made = {"sgd": lm.optim.SGD(0.05, momentum=0.9, nesterov=True), "rmsprop": lm.optim.RMSprop(centered=True, momentum=0.1),
            "switches": lm.optim.Adam(gradient_accumulation_steps=2, ema_momentum=0.9, dynamic_loss_scale=True)}.get(optimizer, optimizer)
    first.compile(made, lm.losses.Huber(0.7) if optimizer == "sgd" else "mse", metrics=["mae"])
    first.fit(X, Y, epochs=1, batch_size=16, verbose=0)
    state = lm.random.get_state()
    second = through(first)
    assert lm.random.get_state() == state and bits(second) == bits(first)
    assert type(second.optimizer) is type(first.optimizer) and second.optimizer.learning_rate.item() == first.optimizer.learning_rate.item()
    histories = []
    for model in (first, second):
        lm.random.set_state(state)
        histories.append(model.fit(X, Y, epochs=2, batch_size=16, verbose=0, shuffle=False).history)
    assert histories[0] == histories[1] and bits(first) == bits(second)
    for a, b in zip(first.optimizer.variables, second.optimizer.variables, strict=True):
        assert a.name == b.name and a.numpy().tobytes() == b.numpy().tobytes()
    before = bits(first)
    second.fit(X, Y, epochs=1, verbose=0)
    assert bits(first) == before != bits(second)  # nothing is shared


@both
def test_every_layer_with_weights_computes_the_same(through):
    sequence, image, ids = lm.random.normal((2, 5, 4)), lm.random.normal((2, 6, 6, 4)), lm.constant([[1, 2], [0, 3]])
    layers = [
        (nn.Dense(3, "softmax", use_bias=False), sequence), (nn.Conv1D(4, 3, groups=2), sequence), (nn.Conv1DTranspose(4, 3), sequence), (nn.Conv2D(3, 3, 2, "same"), image),
        (nn.Conv2DTranspose(3, 3), image), (nn.DepthwiseConv2D(3, padding=((1, 0), (2, 1)), depth_multiplier=2), image), (nn.BatchNorm(), image), (nn.LayerNorm((-2, -1)), image), (nn.GroupNorm(2), image),
        (nn.RMSNorm(dtype="float64"), sequence), (nn.Embedding(4, 3), ids), (nn.SimpleRNN(3), sequence), (nn.LSTM(3, return_sequences=True), sequence), (nn.GRU(3), sequence),
        (nn.Bidirectional(nn.LSTM(3)), sequence), (nn.MultiHeadAttention(2, 3), (sequence, sequence)), (nn.MaxPool1D(), sequence), (nn.UpSampling2D(), image), (nn.ZeroPadding2D(1), image),
        (nn.Reshape((-1,)), image), (nn.Flatten(), image), (nn.Lambda(lm.sin), image), (nn.Activation("silu"), image),
    ]
    for layer, x in layers:
        x = x if isinstance(x, tuple) else (x,)
        fresh = through(layer)  # before its weights exist
        y = layer(*x)
        twin = through(layer)
        np.testing.assert_array_equal(twin(*x).numpy(), y.numpy(), err_msg=repr(layer))
        assert [v.name for v in twin.variables] == [v.name for v in layer.variables] and twin.name == layer.name and twin.get_config().keys() == layer.get_config().keys()
        assert fresh(*x).shape == y.shape
        for v in twin.variables:
            v.assign_add(lm.ones_like(v.read()) if v.dtype != lm.bool else v.read())
        if twin.variables:
            assert not np.array_equal(twin(*x).numpy(), y.numpy()), layer  # its computation uses its own weights
            np.testing.assert_array_equal(layer(*x).numpy(), y.numpy())


@both
def test_variables_stay_one_where_they_were_one(through):
    v = lm.Variable([1.0, 2.0], name="v", trainable=False)
    layer = nn.Dense(2)
    layer(lm.ones((1, 2)))
    a, b, other, kernel, twin = through([v, v, lm.Variable(lm.constant(3, "bfloat16")), layer._core.kernel, layer])
    assert a is b and a.name == "v" and not a.trainable and a.numpy().tolist() == [1, 2] and other.dtype == lm.bfloat16
    assert hash(kernel) == hash(twin.kernel) == hash(twin._core.kernel) != hash(layer.kernel)
    a.assign([5.0, 6.0])
    assert v.numpy().tolist() == [1, 2] and b.numpy().tolist() == [5, 6]
    p = through(lm.per_model([0.1, 0.2], "rates"))
    assert p.models == 2 and p.numpy().tolist() == lm.per_model([0.1, 0.2]).numpy().tolist()


@both
def test_optimizer_and_model_apart_from_fit(through):
    w = lm.Variable([1.0, -2.0], name="w")
    adam = lm.optim.Adam(0.1, weight_decay=0.01)
    for k in range(3):
        adam.apply_gradients([(w * 2, w)])
    w2, adam2 = through((w, adam))
    for weight, one in ((w, adam), (w2, adam2)):
        one.learning_rate.assign(0.05)
        one.apply_gradients([(weight * 2, weight)])
    assert w.numpy().tobytes() == w2.numpy().tobytes() and adam2.iterations.item() == 4 and not through(lm.optim.SGD()).built


@both
def test_an_ensemble_keeps_its_models(through):
    nets = nn.stack(one_of_the_ensemble, 3, seeds=[1, 2, 3], input_shape=(2,))
    twin = through(nets)
    x = lm.ones((4, 2))
    for k in range(2):  # draws continue alike
        ys = [lm.vmap(lambda x, net=net: net(x, training=True), in_axes=None)(x).numpy() for net in (nets, twin)]
        np.testing.assert_array_equal(*ys)
    assert len(twin) == 3 and len(twin.variables) == len(nets.variables)
    np.testing.assert_array_equal(twin[1](x).numpy(), nets[1](x).numpy())


def one_of_the_ensemble():
    return nn.Sequential([nn.Dense(4, "tanh"), nn.Dropout(0.5), nn.Dense(1)])


@both
def test_a_deep_functional_model_needs_no_deep_recursion(through):
    x = h = nn.Input((4,))
    for _ in range(150):
        h = nn.Dense(4, "tanh")(h)
    net = nn.Model(x, h)
    assert bits(through(net)) == bits(net)
    chain = nn.Sequential([nn.Input((4,)), *(nn.Dense(4) for _ in range(150))])
    assert bits(through(chain)) == bits(chain)


class Counter(lm.Module):
    def __init__(self):
        self.count, self.names, self.me = lm.Variable(0), {"a": lm.Variable(1.5)}, self

    @lm.function
    def add(self, n):
        self.count.assign_add(n)
        return self.count.read()


@both
def test_modules_with_traced_methods_and_cycles(through):
    c = Counter()
    c.add(2)
    d = through(c)
    assert d.me is d and int(d.add(3)) == 5 and int(c.count) == 2 and int(copy.copy(c).count) == 2
    spec = through(lm.TensorSpec([None, 3, "n"], "float64", "x"))
    assert spec == lm.TensorSpec([None, 3, "n"], "float64") and spec.name == "x"
    f = through(lm.function(lm.sin, input_signature=[lm.TensorSpec([None])]))
    assert f._signature == [lm.TensorSpec([None])] and f(lm.zeros(3)).numpy().tolist() == [0, 0, 0] and through(top) is top


@lm.function
def top(x):
    return x + 1


def test_what_a_pickle_cannot_hold_is_named():
    def local(x):
        return x

    class Local(nn.Layer):
        pass

    held = nn.Dense(2, name="held")
    held.lock = threading.Lock()
    cases = [
        (nn.Lambda(lambda x: x * 2, name="twice"), "pickle: twice was made with the function .*<lambda>"), (nn.Dense(2, local, name="odd"), "pickle: odd .*local"),
        (nn.Sequential([nn.Dense(2), nn.Lambda(local, name="inner")]), "pickle: inner"), (Local(name="mine"), "class .*Local of mine"), (held, "pickle: held has .*lock"),
        (nn.Dense(2, kernel_initializer=local, name="start"), "pickle: start"), (nn.Model(x := nn.Input((2,)), nn.Lambda(local, name="of_model")(x)), "pickle: of_model"),
    ]
    for layer, text in cases:
        with pytest.raises(lm.errors.StateError, match=text) as caught:
            pickle.dumps(layer)
        assert caught.value.why and caught.value.fix
    with pytest.raises(lm.errors.StateError, match="deepcopy: held has a.*lock in 'lock'"):
        copy.deepcopy(held)
    twin = copy.deepcopy(cases[0][0])  # a copy in the same process needs no name
    assert twin(lm.ones(2)).numpy().tolist() == [2, 2]


def test_a_pickle_names_constructors_and_holds_no_code():
    net = sequential()
    net.compile("adam", "mse")
    net.fit(X, Y, epochs=1, verbose=0)
    names = set()
    for op, argument, _ in pickletools.genops(io.BytesIO(pickle.dumps(net, protocol=2))):
        if op.name == "GLOBAL":
            names.add(argument.split()[0].split(".")[0])
    assert names <= {"lamina", "numpy", "copyreg", "__builtin__", "builtins", "_codecs", "collections", "copy_reg"}, names


def slower(steps):
    return 0.1 / (1 + lm.astype(steps, "float32"))


SCHEDULES = {
    "Constant": lambda s: s.Constant(0.1), "PiecewiseConstantDecay": lambda s: s.PiecewiseConstantDecay([2, 5], [0.1, 0.05, 0.01]), "ExponentialDecay": lambda s: s.ExponentialDecay(0.1, 3, 0.5, staircase=True),
    "CosineDecay": lambda s: s.CosineDecay(0.1, 10, alpha=0.1), "CosineDecayRestarts": lambda s: s.CosineDecayRestarts(0.1, 3, m_mul=0.5), "PolynomialDecay": lambda s: s.PolynomialDecay(0.1, 4, power=2.0, cycle=True),
    "OneCycle": lambda s: s.OneCycle(0.1, 9, final_div_factor=100.0), "Warmup": lambda s: s.Warmup(s.CosineDecay(0.1, 10), 3, start=0.01), "Warmup of a function": lambda s: s.Warmup(slower, 3),
    "a function": lambda s: slower,
}


@both
@pytest.mark.parametrize("kind", SCHEDULES)
def test_an_optimizer_with_a_schedule_goes_on_as_the_original(through, kind):
    assert {name.split()[0] for name in SCHEDULES} >= {name for name in lm.optim.schedules.__all__ if name != "Schedule"}
    net = sequential()
    net.compile(lm.optim.Adam(SCHEDULES[kind](lm.optim.schedules)), "mse")
    net.fit(X, Y, epochs=1, verbose=0)
    again = through(net)
    lm.random.set_seed(3)
    one = net.fit(X, Y, epochs=2, verbose=0).history
    lm.random.set_seed(3)
    assert again.fit(X, Y, epochs=2, verbose=0).history == one
    rates = [[float(o.schedule(n)) for n in range(12)] for o in (net.optimizer, again.optimizer)]
    assert rates[0] == rates[1] and again.optimizer.iterations.item() == net.optimizer.iterations.item()


def test_a_schedule_that_no_name_leads_to_is_copied_and_for_pickle_says_what_to_do():
    optimizer = lm.optim.Adam(lambda steps: 0.1 / (1 + steps))
    assert float(copy.deepcopy(optimizer).learning_rate) == pytest.approx(0.1)
    with pytest.raises(lm.errors.StateError, match="the learning rate is the function .*lambda.*, which no name leads to"):
        pickle.dumps(optimizer)


def test_what_stays_in_its_process_says_what_to_do(tmp_path):
    f = lm.function(lambda x: x + 1)
    lm.save(lm.function(lambda x: x * 2, input_signature=[lm.TensorSpec([None])]), tmp_path / "program")
    holder = nn.Dense(2, name="holder")
    holder.feed = lm.data.Dataset.range(3)
    things = [f.get_concrete_function(lm.TensorSpec([2])), lm.data.Dataset.range(3), lm.GradientTape(), lm.inspect(f, lm.ones(2)), lm.device("cpu:0"), lm.limits(seconds=1),
              lm.summary.Writer(tmp_path / "events"), lm.load(tmp_path / "program")]
    for thing in things:
        for through in (pickle.dumps, copy.deepcopy):
            with pytest.raises(lm.errors.TypeMismatch, match="pickle: .* cannot be pickled or copied") as caught:
                through(thing)
            assert caught.value.why and caught.value.fix
    net = sequential()
    net(X)
    quantized = lm.quantize(net, X)
    with pytest.raises(lm.errors.TypeMismatch, match="pickle: call, a function of a saved program or of a quantized model, .*(?s:.)*lm.load"):
        pickle.dumps(quantized)
    with pytest.raises(lm.errors.StateError, match="deepcopy: .* has a SavedFunction in 'call'.*(?s:.)*lm.load"):
        copy.deepcopy(quantized)
    with pytest.raises(lm.errors.StateError, match="deepcopy: holder has a Dataset in 'feed'") as caught:
        copy.deepcopy(holder)
    assert caught.value.why == "its steps are functions and threads of this process"


@both
def test_an_explanation_is_copied(through):
    f = lm.function(lambda x: lm.tanh(x) * 2)
    explained = f.explain(lm.ones(2))
    again = through(explained)
    assert str(again) == str(explained) and again.launches == explained.launches and again.json() == explained.json()


def test_half_types_become_lists_and_histograms(tmp_path):
    values = [0.5, -2.0, float("inf")]
    for dtype in ("bfloat16", "float16"):
        assert lm.constant(values, dtype).tolist() == values and lm.Variable(lm.constant([values], dtype)).tolist() == [values]
    with lm.summary.Writer(tmp_path) as writer:
        writer.histogram("weights", lm.ones((3, 2), "bfloat16"), 0)
        writer.scalar("loss", lm.constant(0.5, "bfloat16"), 0)
