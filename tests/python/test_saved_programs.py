"""lm.save and lm.load: what a program was, it is again, in a process that has no source code of it."""
import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import lamina as lm

F32 = lm.float32


def rows(n, width=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, width)).astype("float32")


def files(folder):
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


class Policy(lm.Module):
    def __init__(self):
        super().__init__()
        self.w = lm.Variable([[2.0], [3.0], [4.0]])
        self.scales = {"a": lm.Variable(2.0, trainable=False), "b": [lm.constant([1.0, 2.0])]}
        self.inner = Inner()
        self.title, self.count, self.nothing, self.far = "a policy", 3, None, float("inf")
        self.socket = object()

    @lm.function(input_signature=[lm.TensorSpec([None, 3], F32)])
    def score(self, rows):
        return {"score": lm.matmul(rows, self.w) * self.scales["a"] + self.inner.shift, "first": (rows[0], [rows[1:]])}

    @lm.function
    def step(self, x, y, rate=0.1, *, clip=None):
        with lm.GradientTape() as tape:
            loss = lm.mean((lm.matmul(x, self.w) - y) ** 2)
        self.w.assign_sub(rate * tape.gradient(loss, self.w))
        return loss

    @lm.function
    def never_called(self, x):
        return x


class Inner(lm.Module):
    def __init__(self):
        super().__init__()
        self.shift = lm.Variable([1.0])

    @lm.function(input_signature=[lm.TensorSpec(["n"], F32), lm.TensorSpec(["n"], F32)])
    def dot(self, a, b):
        return lm.sum(a * b)


@pytest.fixture
def policy():
    made = Policy()
    made.step(rows(4), rows(4, 1))
    return made


@pytest.mark.row("S1-12")
def test_a_module_comes_back_with_its_attributes_variables_and_functions(policy, tmp_path):
    lm.save(policy, tmp_path / "policy")
    m = lm.load(tmp_path / "policy")
    assert (m.title, m.count, m.nothing, m.far) == ("a policy", 3, None, float("inf"))
    assert m.scales["b"][0].numpy().tolist() == [1.0, 2.0] and not m.scales["a"].trainable
    assert len(m.variables) == len(policy.variables) and sorted(m.state_dict()) == sorted(policy.state_dict())
    x = rows(5)
    ours, theirs = m.score(x), policy.score(lm.constant(x))
    assert np.array_equal(ours["score"].numpy(), theirs["score"].numpy()) and ours["first"][1][0].shape == (4, 3)
    assert float(m.inner.dot([1.0, 2.0], [3.0, 4.0])) == 11.0
    for _ in range(3):
        assert float(m.step(rows(4), rows(4, 1))) == float(policy.step(rows(4), rows(4, 1)))
    assert np.array_equal(m.w.numpy(), policy.w.numpy())
    m.w.assign(lm.zeros((3, 1)))
    assert np.array_equal(m.score(x)["score"].numpy(), np.ones((5, 1)))


def test_what_was_not_saved_says_what_it_was(policy, tmp_path):
    lm.save(policy, tmp_path / "policy")
    m = lm.load(tmp_path / "policy")
    with pytest.raises(lm.errors.StateError, match="'socket' was not saved"):
        m.socket
    assert not hasattr(m, "socket") and hasattr(m, "score")
    with pytest.raises(lm.errors.StateError, match="not called yet"):
        m.never_called
    with pytest.raises(AttributeError, match="scare"):
        m.scare


@pytest.mark.row("S1-12")
def test_what_does_not_fit_is_refused_with_the_signature(policy, tmp_path):
    lm.save(policy, tmp_path / "policy")
    m = lm.load(tmp_path / "policy")
    for call, part in [(lambda: m.score(np.ones((2, 2), "float32")), "(None, 3)"), (lambda: m.score(lm.constant(np.ones((2, 3)))), "float64"),
                       (lambda: m.step(rows(4), rows(4, 1), 0.2), "0.1"), (lambda: m.step(rows(4)), "y is missing"),
                       (lambda: m.step(rows(4), rows(4, 1), clop=1), "clop"), (lambda: m.step(rows(5), rows(5, 1)), "(4, 3)"),
                       (lambda: m.inner.dot([1.0], [1.0, 2.0]), "n"), (lambda: m.score([rows(2)]), "3")]:
        with pytest.raises(lm.errors.Error) as info:
            call()
        assert part in str(info.value), str(info.value)


@pytest.mark.row("S1-9", "S1-12")
def test_no_source_and_no_trace_in_another_process(policy, tmp_path):
    lm.save(policy, tmp_path / "policy")
    x = rows(6)
    expected = policy.score(lm.constant(x))["score"].numpy()
    np.save(tmp_path / "x.npy", x)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import sys, numpy as np, lamina as lm
        m = lm.load(sys.argv[1] + "/policy")
        print(m.score(np.load(sys.argv[1] + "/x.npy"))["score"].numpy().tobytes().hex())
    """), str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected.tobytes().hex()


def test_the_bytes_are_the_same_each_time_and_when_saved_again(policy, tmp_path):
    lm.save(policy, tmp_path / "1")
    lm.save(policy, tmp_path / "2")
    lm.save(lm.load(tmp_path / "1"), tmp_path / "3")
    assert files(tmp_path / "1") == files(tmp_path / "2")
    assert files(tmp_path / "1") == files(tmp_path / "3")


def test_saving_takes_the_place_of_what_was_there(policy, tmp_path):
    lm.save(policy, tmp_path / "policy")
    policy.w.assign(lm.ones((3, 1)))
    lm.save(policy, tmp_path / "policy")
    assert lm.load(tmp_path / "policy").w.numpy().tolist() == [[1.0]] * 3
    (tmp_path / "file").write_text("")
    with pytest.raises(lm.errors.BadFile):
        lm.save(policy, tmp_path / "file")
    assert (tmp_path / "file").read_text() == ""


def test_a_class_that_the_caller_gives_is_used_with_its_own_source(policy, tmp_path):
    lm.save(policy, tmp_path / "policy")
    m = lm.load(tmp_path / "policy", custom={"Policy": Policy, "Inner": Inner})
    assert type(m) is Policy and type(m.inner) is Inner
    assert m.never_called(lm.ones(2)).shape == (2,)
    assert np.array_equal(m.score(lm.constant(rows(2)))["score"].numpy(), policy.score(lm.constant(rows(2)))["score"].numpy())


def mean_error(labels, predictions):
    return lm.mean(lm.abs(labels - predictions))


def test_models_are_saved_as_a_call_and_a_step(tmp_path):
    net = lm.nn.Sequential([lm.nn.Dense(8, activation="relu"), lm.nn.Dropout(0.5), lm.nn.BatchNorm(), lm.nn.Dense(2)])
    net.compile("adam", "mse", metrics=[mean_error])
    x, y = rows(40), rows(40, 2, 1)
    net.fit(x, y, batch_size=20, epochs=2, verbose=0)
    lm.save(net, tmp_path / "net")
    m = lm.load(tmp_path / "net")
    assert sorted(m.signatures) == ["call", "train_step"]
    assert np.array_equal(m(x[:7]).numpy(), net(lm.constant(x[:7])).numpy())
    for n in (20, 5):
        ours, theirs = m.train_step(x[:n], y[:n]), net._train_step(lm.constant(x[:n]), lm.constant(y[:n]))
        assert float(ours["loss"]) == float(theirs[0])
    assert np.array_equal(m(x).numpy(), net(lm.constant(x)).numpy())
    assert set(lm.load_tensors(tmp_path / "net" / "weights.safetensors")) >= set(net.state_dict())
    inputs = lm.nn.Input([3])
    functional = lm.nn.Model(inputs, [lm.nn.Dense(2)(inputs), inputs])
    lm.save(functional, tmp_path / "functional")
    assert np.array_equal(lm.load(tmp_path / "functional")(x)[0].numpy(), functional(lm.constant(x))[0].numpy())


def test_loaded_functions_take_part_in_everything(policy, tmp_path):
    lm.save(policy, tmp_path / "policy")
    m, x = lm.load(tmp_path / "policy"), lm.constant(rows(4))
    plain = lambda x: policy.score(x)["score"]  # noqa: E731
    loaded = lambda x: m.score(x)["score"]  # noqa: E731
    with lm.GradientTape() as tape:
        loss = lm.sum(loaded(x) ** 2)
    with lm.GradientTape() as other:
        expected = lm.sum(plain(x) ** 2)
    assert np.array_equal(tape.gradient(loss, m.w).numpy(), other.gradient(expected, policy.w).numpy())
    assert np.allclose(lm.grad(lambda x: lm.sum(loaded(x)))(x).numpy(), lm.grad(lambda x: lm.sum(plain(x)))(x).numpy())
    assert np.allclose(lm.vmap(lambda r: loaded(lm.expand_dims(r, 0)))(x).numpy(), lm.vmap(lambda r: plain(lm.expand_dims(r, 0)))(x).numpy())
    assert np.array_equal(lm.function(loaded)(x).numpy(), plain(x).numpy())
    open_rows = lm.function(lambda x: loaded(x) * 2.0, input_signature=[lm.TensorSpec([None, 3], F32)])
    for n in (1, 4):
        assert np.array_equal(open_rows(x[:n]).numpy(), plain(x[:n]).numpy() * 2)
    assert "matmul" in m.score.explain()


def test_signatures_by_name_and_what_cannot_be_saved(policy, tmp_path):
    lm.save(policy, tmp_path / "a", signatures={"predict": policy.score, "learn": policy.step})
    assert sorted(lm.load(tmp_path / "a").signatures) == ["learn", "predict"]
    for what, error in [(3, lm.errors.TypeMismatch), (lambda x: x, lm.errors.TypeMismatch), (Inner, lm.errors.TypeMismatch), (lm.Module(), lm.errors.StateError),
                        (lm.function(lambda x: x), lm.errors.StateError), ({"f": 3}, lm.errors.StateError)]:
        with pytest.raises(error):
            lm.save(what, tmp_path / "b")
    assert not (tmp_path / "b").exists()
    with pytest.raises(lm.errors.StateError, match="never"):
        lm.save(policy, tmp_path / "b", signatures={"never": policy.never_called})
    opaque = lm.function(lambda policy, x: x * 2)
    opaque(policy, lm.ones(2))
    with pytest.raises(lm.errors.StateError, match="Policy"):
        lm.save(opaque, tmp_path / "b")


def test_the_description_may_be_hostile(policy, tmp_path):
    import zlib

    lm.save(policy, tmp_path / "policy")
    path = tmp_path / "policy" / "language.json"
    good = json.loads(path.read_text())

    def changed(change):
        data = json.loads(json.dumps(good))
        change(data)
        return json.dumps(data)

    deep = "[" * 100_000
    for text in ["{", deep, changed(lambda d: d.update(root=["object", 99])), changed(lambda d: d.update(root=["variable", "no"])), changed(lambda d: d.update(root=3)),
                 changed(lambda d: d.update(objects=3)), changed(lambda d: d.pop("objects")), changed(lambda d: d["objects"][0].update(attributes=[1])),
                 changed(lambda d: d["functions"].update(score=[])), changed(lambda d: d["functions"]["score"][0].update(arguments=[])),
                 changed(lambda d: d["functions"]["score"][0].update(result=["named", "os.system", []])),
                 changed(lambda d: d["objects"][0].update(attributes={"w": ["named", "import os", [["x y", ["value", 1]]]], "z": ["function", "no"]}))]:
        path.write_text(text)
        sums = json.loads((tmp_path / "policy" / "checksums.json").read_text())
        sums["language.json"] = zlib.crc32(text.encode())
        (tmp_path / "policy" / "checksums.json").write_text(json.dumps(sums, indent=1))
        with pytest.raises(lm.errors.BadFile):
            lm.load(tmp_path / "policy")


class Choosing(lm.nn.Model):
    def __init__(self):
        super().__init__()
        self.dense = lm.nn.Dense(2)

    def call(self, x):
        y = self.dense(x)
        if lm.sum(y) > 0:
            y = y * 2
        return y


def test_a_model_whose_call_branches_on_tensors_is_saved(tmp_path):
    net, x = Choosing(), lm.constant(np.random.default_rng(0).normal(size=(6, 3)).astype("float32"))
    net.compile("sgd", "mse")
    net.fit(x.numpy(), np.zeros((6, 2), "float32"), verbose=0)
    lm.save(net, tmp_path / "net")
    loaded = lm.load(tmp_path / "net")
    for rows in (x, -x):
        assert np.array_equal(loaded(rows).numpy(), net(rows).numpy())
    assert float(loaded.train_step(x, lm.zeros((6, 2)))["loss"].numpy()) >= 0


def test_wrong_calls():
    for call in (lambda: lm.load("/nowhere/at/all"), lambda: lm.load(3), lambda: lm.load("x", custom={"a": 3}), lambda: lm.save(), lambda: lm.load("a\0b")):
        with pytest.raises(lm.errors.Error):
            call()


def test_info_says_what_a_program_has(policy, tmp_path):
    lm.save(policy, tmp_path / "policy")
    done = subprocess.run([sys.executable, "-m", "lamina", "info", str(tmp_path / "policy")], capture_output=True, text=True)
    assert done.returncode == 0 and "function score(rows: f32[" in done.stdout and "variable w: f32[3,1]" in done.stdout and "file weights.safetensors" in done.stdout
    assert subprocess.run([sys.executable, "-m", "lamina", "info", str(tmp_path)], capture_output=True, text=True).returncode == 1


def test_the_c_code_of_a_module_is_that_of_the_loaded_one(tmp_path):
    class Fixed(lm.Module):
        def __init__(self):
            super().__init__()
            self.w = lm.Variable([[2.0], [3.0], [4.0]])

        @lm.function(input_signature=[lm.TensorSpec([4, 3], F32)])
        def score(self, rows):
            return lm.matmul(rows, self.w)

        @lm.function(input_signature=[lm.TensorSpec([4, 3], F32)])
        def learn(self, rows):
            self.w.assign_add(lm.matmul(rows, lm.ones((4, 1)), transpose_a=True))

    fixed = Fixed()
    lm.save(fixed, tmp_path / "fixed")
    lm.export_c(fixed, tmp_path / "c1", name="fixed")
    lm.export_c(lm.load(tmp_path / "fixed"), tmp_path / "c2", name="fixed")
    assert files(tmp_path / "c1") == files(tmp_path / "c2")
    text = (tmp_path / "c1" / "fixed.h").read_text()
    assert "fixed_score" in text and "fixed_learn" in text


def test_a_folder_with_other_files_is_left_alone(policy, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(lm.errors.BadFile, match="thesis.txt"):
        lm.save(policy, tmp_path / "mine")
    with pytest.raises(lm.errors.BadFile, match="thesis.txt"):
        lm.export_c({"score": (lambda x: x * 2, lm.ones(3))}, tmp_path / "mine")
    assert os.listdir(tmp_path / "mine") == ["thesis.txt"]


def test_private_modules_names_and_variables_stay(tmp_path):
    class Outer(lm.Module):
        def __init__(self):
            super().__init__()
            self._net = lm.nn.Sequential([lm.nn.Dense(2), lm.nn.Dense(1)])
            self.opt = lm.optim.Adam(0.1)

        @lm.function(input_signature=[lm.TensorSpec([None, 3], F32)])
        def step(self, x):
            with lm.GradientTape() as tape:
                loss = lm.sum(self._net(x) ** 2)
            self.opt.apply_gradients(zip(tape.gradient(loss, self._net.trainable_variables), self._net.trainable_variables))
            return loss

    outer = Outer()
    outer._net(lm.ones((1, 3)))
    outer.step(lm.ones((2, 3)))
    lm.save(outer, tmp_path / "1")
    loaded = lm.load(tmp_path / "1")
    assert list(loaded.state_dict()) == list(outer.state_dict()) and len(loaded.variables) == len(outer.variables) == 4
    lm.save_weights(loaded, tmp_path / "w")
    lm.load_weights(outer, tmp_path / "w")
    assert float(loaded.step(lm.ones((2, 3)))) == float(outer.step(lm.ones((2, 3))))
    lm.save(loaded, tmp_path / "2")
    lm.save(lm.load(tmp_path / "2"), tmp_path / "3")
    assert files(tmp_path / "2") == files(tmp_path / "3")


def test_one_variable_under_two_names_is_one(tmp_path):
    class Two(lm.Module):
        def __init__(self):
            super().__init__()
            self.a = lm.Variable([1.0])
            self.b = self.a

        @lm.function(input_signature=[lm.TensorSpec([1], F32)])
        def f(self, x):
            return x + self.b

    two = Two()
    two.c = two.a
    lm.save(two, tmp_path / "two")
    loaded = lm.load(tmp_path / "two")
    loaded.b.assign([5.0])
    assert loaded.a.numpy().tolist() == [5.0] == loaded.c.numpy().tolist() and loaded.f(lm.zeros(1)).numpy().tolist() == [5.0] and len(loaded.variables) == 1


def test_dicts_of_models_names_and_signatures(tmp_path):
    net = lm.nn.Sequential([lm.nn.Dense(2)])
    net(lm.ones((1, 3)))
    double = lm.function(lambda x: x * 2.0)
    double(lm.ones(2))
    lm.save({"policy": net, "double": double}, tmp_path / "d", signatures={"twice": double})
    loaded = lm.load(tmp_path / "d")
    assert np.array_equal(loaded.policy(lm.ones((5, 3))).numpy(), net(lm.ones((5, 3))).numpy()) and list(loaded.signatures) == ["twice"]
    lm.save(loaded, tmp_path / "again")
    assert list(lm.load(tmp_path / "again").signatures) == ["twice"]
    with pytest.raises(lm.errors.InvalidArgument, match="a.b"):
        lm.save({"a.b": double, "a": {"b": lm.function(lambda x: x, input_signature=[lm.TensorSpec([1], F32)])}}, tmp_path / "d2")
    assert not (tmp_path / "d2").exists()
    with pytest.raises(lm.errors.TypeMismatch, match="Module"):
        lm.load(tmp_path / "d", custom={"Sequential": int})


def test_what_no_tensor_can_hold_is_listed(policy, tmp_path):
    policy.words = np.array(["a", "b"])
    lm.save(policy, tmp_path / "policy")
    with pytest.raises(lm.errors.StateError, match="an array of"):
        lm.load(tmp_path / "policy").words
    f = lm.function(lambda x: (x, np.ones(2)))
    f(lm.ones(1))
    with pytest.raises(lm.errors.StateError, match="result"):
        lm.save(f, tmp_path / "f")


class Kinds(lm.Module):
    """Each way in which a class or an object holds a function."""

    def __init__(self):
        super().__init__()
        self.kept = lm.function(lambda x: x + 4.0, input_signature=[lm.TensorSpec([2], F32)])
        self._hidden = lm.function(lambda x: x + 5.0, input_signature=[lm.TensorSpec([2], F32)])
        self._mixed, self._thing = [lm.constant([1.0]), object()], object()

    @lm.function(input_signature=[lm.TensorSpec([2], F32)])
    def method(self, x):
        return self._private(x) + 1.0

    @staticmethod
    @lm.function(input_signature=[lm.TensorSpec([2], F32)])
    def static(x):
        return x + 2.0

    @classmethod
    @lm.function(input_signature=[lm.TensorSpec([2], F32)])
    def of_class(cls, x):
        return x + (3.0 if issubclass(cls, Kinds) else 0.0)

    @lm.function(input_signature=[lm.TensorSpec([2], F32)])
    def _private(self, x):
        return x * 10.0

    @staticmethod
    @lm.function(input_signature=[lm.TensorSpec([2], F32)])
    def _private_static(x):
        return x


def test_every_kind_of_function_is_saved_or_says_that_it_was_not(tmp_path):
    class Derived(Kinds):
        pass

    x = lm.constant([1.0, 2.0])
    for made in (Kinds(), Derived(), {"a": Kinds(), "b": Kinds()}):
        lm.save(made, tmp_path / "m")
        lm.save(lm.load(tmp_path / "m"), tmp_path / "again")
        assert files(tmp_path / "m") == files(tmp_path / "again")
        loaded = lm.load(tmp_path / "m")
        for ours, theirs in [(loaded, made)] if not isinstance(made, dict) else [(getattr(loaded, name), made[name]) for name in made]:
            for name in ("kept", "method", "static", "of_class"):
                assert np.array_equal(getattr(ours, name)(x).numpy(), getattr(theirs, name)(x).numpy()), name
            for name, what in [("_hidden", "private name"), ("_private", "private name"), ("_private_static", "private name"), ("_thing", "object")]:
                with pytest.raises(lm.errors.StateError, match=rf"'{name}' was not saved[^$]*{what}"):
                    getattr(ours, name)
            assert ours._mixed[0].numpy().tolist() == [1.0] and "not saved: an object" in repr(ours._mixed[1])
        assert not [name for name in loaded.signatures if "private" in name or "hidden" in name]
    assert lm.load(tmp_path / "m", custom={"Kinds": Kinds}).a._private(x).numpy().tolist() == [10.0, 20.0]


class Masked(lm.nn.Layer):
    def __init__(self):
        super().__init__()
        self.dense = lm.nn.Dense(2)

    def build(self, input_shape):
        self.width = input_shape[-1]

    def call(self, inputs, mask=None, training=False):
        return self.dense(inputs) * (1.0 if mask is None else mask)


class ByName(Masked):
    def call(self, *, inputs, mask):
        return super().call(inputs, mask)


class MaskedModel(lm.nn.Model):
    def __init__(self):
        super().__init__()
        self.masked = Masked()

    def call(self, inputs, mask=None):
        return self.masked(inputs, mask=mask)


x4, m4 = rows(4), rows(4, 1, 1)
FIRST_CALLS = {"position": ((x4,), {}), "name": ((), {"inputs": x4}), "both": ((x4,), {"mask": m4}), "names": ((), {"mask": m4, "inputs": x4}), "positions": ((x4, m4), {}),
               "a tuple": (((x4, m4),), {}), "a dict by name": ((), {"inputs": {"x": x4, "m": [m4]}})}


class Nested(lm.nn.Layer):
    def __init__(self):
        super().__init__()
        self.dense = lm.nn.Dense(2)

    def call(self, inputs):
        x, m = (inputs["x"], inputs["m"][0]) if isinstance(inputs, dict) else inputs
        return self.dense(x) * m


@pytest.mark.parametrize("cls, first", [(cls, first) for cls in (Masked, MaskedModel) for first in list(FIRST_CALLS)[:5]] +
                         [(ByName, "names"), (Nested, "a tuple"), (Nested, "a dict by name")])
def test_a_layer_is_saved_however_it_was_called_first(cls, first, tmp_path):
    args, kwargs = FIRST_CALLS[first]
    net = cls()
    want = net(*args, **kwargs).numpy()
    lm.save(net, tmp_path / "net")
    loaded = lm.load(tmp_path / "net")
    assert np.array_equal(loaded(*args, **kwargs).numpy(), want)
    if cls is not Nested:  # for any number of rows
        few = [part[:2] for part in args], {name: part[:2] for name, part in kwargs.items()}
        assert np.array_equal(loaded(*few[0], **few[1]).numpy(), want[:2])
    if first in ("name", "names") and cls is not ByName:
        assert np.array_equal(loaded(kwargs["inputs"], **{name: value for name, value in kwargs.items() if name != "inputs"}).numpy(), want)
    assert getattr(net, "width", 3) == 3  # build() is told the shape of what call() takes first


def test_deep_modules_are_saved_and_loaded_or_refused(tmp_path):
    def deep(levels, inside=lambda module: module):
        module = Inner()
        for _ in range(levels - 1):
            outer = lm.Module()
            outer.inner = inside(module)
            module = outer
        return module

    for levels, inside, fits in [(1, None, True), (50, None, True), (200, None, True), (201, None, False), (400, None, False), (5000, None, False),
                                 (90, lambda module: [module], True), (100, lambda module: [{"a": (module,)}], False), (400, lambda module: [module], False)]:
        module = deep(levels, inside or (lambda module: module))
        if not fits:
            with pytest.raises(lm.errors.InvalidArgument, match="nested more than 200 levels[^$]*fix:"):
                lm.save(module, tmp_path / "deep")
            continue
        lm.save(module, tmp_path / "deep")
        loaded = lm.load(tmp_path / "deep")
        lm.save(loaded, tmp_path / "again")
        assert files(tmp_path / "deep") == files(tmp_path / "again")
        for _ in range(levels - 1):
            loaded = loaded.inner[0] if inside else loaded.inner
        assert float(loaded.dot([2.0], [3.0])) == 6.0
    assert sorted(os.listdir(tmp_path)) == ["again", "deep"]




def test_a_loaded_function_takes_arrays_of_its_kind(tmp_path):
    @lm.function(input_signature=[lm.TensorSpec([None], lm.float32), lm.TensorSpec([None], lm.int32)])
    def pick(x, places):
        return lm.take(x, places)

    lm.save(pick, str(tmp_path / "pick"))
    loaded = lm.load(str(tmp_path / "pick"))
    x, places = np.array([0.5, 1.5, 2.5]), np.array([2, 0])
    assert (x.dtype, places.dtype) == (np.float64, np.int64) and loaded(x, places).numpy().tolist() == [2.5, 0.5]
    for wrong in ((x, np.array([2**40, 0])), (places, places), (x, x), (lm.constant(x), places)):
        with pytest.raises(lm.errors.SignatureMismatch):
            loaded(*wrong)


def test_a_loaded_model_takes_a_data_frame(tmp_path):
    pd = pytest.importorskip("pandas", reason="DataFrames are pandas'")
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    net = lm.nn.Sequential([lm.nn.Dense(3)])
    wanted = net(frame).numpy().tolist()
    lm.save(net, str(tmp_path / "net"))
    assert lm.load(str(tmp_path / "net"))(frame).numpy().tolist() == wanted


def test_what_a_loaded_model_has_not_and_what_is_no_program_say_what_to_do(tmp_path):
    net = lm.nn.Sequential([lm.nn.Input((2,)), lm.nn.Dense(3)], name="net")
    net(lm.ones((1, 2)))
    lm.save(net, str(tmp_path / "net"))
    loaded = lm.load(str(tmp_path / "net"))
    with pytest.raises(AttributeError, match="(?s)no predict.. of a saved Sequential.*test_saved_programs.*lm.nn.load_file"):
        loaded.predict(lm.ones((1, 2)))
    with pytest.raises(AttributeError, match="(?s)no plot.. of a saved Sequential.*lm.nn.load_file"):
        loaded.plot()
    with pytest.raises(lm.errors.SignatureMismatch, match=r"(?s)float64.*fix: +call it as call\(inputs: float32\(None, 2\)\); lm.astype"):
        loaded(lm.ones((1, 2), dtype="float64"))
    with pytest.raises(AttributeError) as error:
        loaded.nothing
    assert "call" in str(error.value) and " _" not in str(error.value).partition("why:")[2]
    (tmp_path / "empty").mkdir()
    with pytest.raises(lm.errors.BadFile, match="(?s)no saved program.*lm.save wrote"):
        lm.load(str(tmp_path / "empty"))


@pytest.mark.parametrize("ending, fix", [(".keras", "lm.nn.save_file"), (".onnx", "lm.onnx.save"), (".safetensors", "lm.save_weights"), (".pt", "name the folder"), (".H5", "name the folder"), (".pkl", "name the folder")])
def test_a_program_is_not_saved_under_the_name_of_another_kind_of_file(tmp_path, ending, fix):
    net = lm.nn.Dense(2)
    net(lm.ones((1, 3)))
    with pytest.raises(lm.errors.InvalidArgument, match="another kind") as e:
        lm.save(net, tmp_path / f"net{ending}")
    assert fix in e.value.fix and str(tmp_path / "net") in e.value.fix and not list(tmp_path.iterdir())
    lm.save(net, tmp_path / "net.v1")
    assert sorted(os.listdir(tmp_path)) == ["net.v1"]


def test_specs_choose_the_graph_of_a_loaded_function(tmp_path):
    f = lm.function(lambda x: x * 2, input_signature=[lm.TensorSpec([None, 3])])
    lm.save(f, tmp_path / "f")
    loaded = lm.load(tmp_path / "f")
    assert loaded.get_concrete_function(lm.TensorSpec([None, 3])) is loaded.get_concrete_function() is loaded.get_concrete_function(lm.ones((5, 3)))
    lm.onnx.save(loaded, tmp_path / "f.onnx", lm.TensorSpec([None, 3]))
    two = lm.function(lambda t: t["a"] + t["b"])
    two({"a": lm.ones(2), "b": lm.ones(2)}), two({"a": lm.ones(3), "b": lm.ones(3)})
    lm.save(two, tmp_path / "two")
    for length in (2, 3):
        spec = lm.TensorSpec([length])
        assert lm.load(tmp_path / "two").get_concrete_function({"a": spec, "b": spec}).outputs[0].shape == (length,)


def test_bytes_that_are_no_text_are_damage(tmp_path):
    class Doubles(lm.Module):
        @lm.function
        def f(self, x):
            return x * 2

    (module := Doubles()).f(lm.constant(1.0))
    lm.save(module, tmp_path / "p")
    for name in sorted(os.listdir(tmp_path / "p")):
        good = (tmp_path / "p" / name).read_bytes()
        for damaged in good + b"\xff", b"\xfe" + good, good[:5] + b"\xc3" + good[5:]:
            (tmp_path / "p" / name).write_bytes(damaged)
            with pytest.raises(lm.errors.BadFile):
                lm.load(tmp_path / "p")
        (tmp_path / "p" / name).write_bytes(good)
