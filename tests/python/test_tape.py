"""lm.GradientTape, eager and traced."""
import warnings

import numpy as np
import pytest

import lamina as lm


def both(f):
    return pytest.mark.parametrize("wrap", [lambda g: g, lm.function], ids=["eager", "traced"])(f)


@both
def test_gradients_of_a_formula(wrap):
    x, w = lm.constant([1.0, 2.0, 3.0]), lm.Variable([0.5, -1.0, 2.0])

    def run(x):
        with lm.GradientTape() as tape:
            tape.watch(x)
            y = lm.sum(lm.square(x) * w + lm.exp(x))
        return tape.gradient(y, {"x": x, "w": w, "both": [x, (w,)]})
    g = wrap(run)(x)
    want = 2 * x.numpy() * w.numpy() + np.exp(x.numpy())
    np.testing.assert_allclose(g["x"].numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(g["w"].numpy(), x.numpy() ** 2, rtol=1e-6)
    assert isinstance(g["both"], list) and isinstance(g["both"][1], tuple) and np.array_equal(g["both"][0].numpy(), g["x"].numpy())


@both
def test_no_path_gives_none(wrap):
    v, w = lm.Variable(1.0), lm.Variable(2.0)

    def run():
        with lm.GradientTape() as tape:
            y = v * 3
        return tape.gradient(y, [v, w])
    g = wrap(run)()
    assert g[0].item() == 3 and g[1] is None


def test_a_tape_gives_gradients_once_unless_persistent():
    v = lm.Variable(3.0)
    with lm.GradientTape() as once:
        y = v * v
    assert once.gradient(y, v).item() == 6
    with pytest.raises(lm.errors.TapeUsed, match="persistent") as e:
        once.gradient(y, v)
    assert isinstance(e.value, RuntimeError)
    with lm.GradientTape(persistent=True) as often:
        y, z = v * v, v * 5
    assert often.gradient(y, v).item() == 6 and often.gradient(z, v).item() == 5


def test_watching():
    x, v, frozen = lm.constant(2.0), lm.Variable(2.0), lm.Variable(2.0, trainable=False)
    with lm.GradientTape(persistent=True) as tape:
        y = x * v * frozen
    assert tape.gradient(y, x) is None and tape.gradient(y, v).item() == 4 and tape.gradient(y, frozen) is None
    with lm.GradientTape(watch_accessed_variables=False, persistent=True) as tape:
        tape.watch([x, frozen])
        y = x * v * frozen
    assert tape.gradient(y, x).item() == 4 and tape.gradient(y, v) is None and tape.gradient(y, frozen).item() == 4
    with pytest.raises(TypeError):
        lm.GradientTape().watch(3)


def test_a_tape_does_not_record_its_own_gradient_and_says_so():
    x = lm.constant(2.0)
    with lm.GradientTape(persistent=True) as tape:
        tape.watch(x)
        slope = tape.gradient(x * x * x, x)
    with pytest.warns(lm.GradientWarning, match="does not record its own gradient\\(\\), which another tape around it does"):
        assert tape.gradient(slope, x) is None


def test_stopping():
    v = lm.Variable(3.0)
    with lm.GradientTape() as tape:
        with tape.stop_recording():
            a = v * v
        y = v * 2 + a
    assert tape.gradient(y, v).item() == 2
    with lm.GradientTape() as tape:
        y = lm.stop_gradient(v * v) + v
    assert tape.gradient(y, v).item() == 1


def test_nested_tapes_give_second_derivatives():
    x = lm.constant(2.0)
    with lm.GradientTape() as outer:
        outer.watch(x)
        with lm.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        first = inner.gradient(y, x)
    assert first.item() == 12 and outer.gradient(first, x).item() == 12


def test_output_gradients_and_several_targets():
    v = lm.Variable([1.0, 2.0])
    with lm.GradientTape(persistent=True) as tape:
        y, z = v * v, v * 3
    assert tape.gradient(y, v, output_gradients=lm.constant([1.0, 10.0])).tolist() == [2, 40]
    assert tape.gradient([y, z], v).tolist() == [5, 7]


def test_integer_targets_are_refused():
    v = lm.Variable(2)
    with lm.GradientTape() as tape:
        y = v * 2
    with pytest.raises(TypeError):
        tape.gradient(y, v)
    with pytest.raises(TypeError):
        lm.GradientTape().gradient("y", v)


def test_gradient_through_a_traced_call_equals_the_eager_one():
    w = lm.Variable(np.random.default_rng(0).normal(size=(3, 2)).astype("float32"))
    x = lm.random.normal([4, 3])

    def f(x):
        return lm.tanh(lm.matmul(x, w))
    g = lm.function(f)
    grads = []
    for fn in (f, g):
        with lm.GradientTape() as tape:
            y = lm.sum(fn(x))
        grads.append(tape.gradient(y, w).numpy())
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-6)


def warned(f):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = f()
    assert all(issubclass(w.category, lm.GradientWarning) and w.filename == __file__ for w in seen)
    return result, [str(w.message) for w in seen]


def asked(source, watch=(), read=None, **options):
    """A tape's gradient of read(source) or its square, and its warnings."""
    def run():
        with lm.GradientTape(**options) as tape:
            for one in watch:
                tape.watch(one)
            y = read(source) if read else source * source
        return tape.gradient(y, source)

    return warned(run)


def test_a_source_that_was_not_watched_is_named():
    result, (text,) = asked(lm.constant([1.0, 2.0]))
    assert result is None and "the source, f32[2], was not watched" in text and "tape.watch" in text
    _, (text,) = asked(lm.Variable(1.0, name="frozen", trainable=False))
    assert "the variable 'frozen' is not trainable" in text
    _, (text,) = asked(lm.Variable(1.0, name="w"), watch_accessed_variables=False)
    assert "the variable 'w' was not watched" in text and "watch_accessed_variables" in text
    v = lm.Variable(1.0, name="v")
    _, (text,) = asked(v, read=lambda v: lm.constant(2.0))
    assert "the variable 'v' was watched, but the target was not computed" in text
    outside = v * 3.0
    _, (text,) = asked(v, read=lambda v: outside)
    assert "inside of the with block" in text


def test_a_source_that_was_watched_and_does_not_connect_is_none_without_a_warning():
    x, v, w = lm.constant(2.0), lm.Variable(1.0), lm.Variable(2.0)
    result, texts = asked(v, watch=[x], read=lambda v: x * x * w)
    assert result is None and texts == []
    assert asked(x, watch=[x]) == (4.0, [])


def test_one_warning_for_all_sources_and_none_when_zeros_are_asked_for():
    parts = [lm.constant(float(i)) for i in range(5)]

    def run(**how):
        with lm.GradientTape() as tape:
            y = sum(parts[1:], parts[0])
        return tape.gradient(y, parts, **how)

    result, (text,) = warned(run)
    assert result == [None] * 5 and "the source 0," in text and "4 other sources" in text
    assert warned(lambda: run(unconnected_gradients="zero"))[1] == []
    assert warned(lambda: lm.grad(lambda x: lm.constant(1.0))(lm.constant(2.0))) == (0.0, [])


def test_a_loop_warns_once():
    x = lm.constant(1.0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(10):
            with lm.GradientTape() as tape:
                y = x * x
            tape.gradient(y, x)
    assert len(seen) == 1


def test_a_traced_function_warns_while_it_is_traced():
    v = lm.Variable(1.0, name="traced", trainable=False)

    @lm.function
    def f():
        with lm.GradientTape() as tape:
            y = v * v
        assert tape.gradient(y, v) is None
        return y

    assert any("'traced' is not trainable" in text for text in warned(f)[1])
    assert warned(f)[1] == []


def test_a_gradient_goes_through_assignments_in_branches_of_a_graph_only():
    v = lm.Variable(2.0)

    def squared(a):
        v.assign(v * a)
        return v * v

    bodies = {"plain": squared, "cond": lambda a: lm.cond(a > 0, lambda: squared(a), lambda: a), "checkpoint": lm.checkpoint(squared)}
    for name, body in bodies.items():
        def f(a):
            with lm.GradientTape() as tape:
                tape.watch(a)
                y = body(a)
            return tape.gradient(y, [v, a], unconnected_gradients="zero")

        for call in (f, lm.function(f)):
            v.assign(2.0)
            by_v, by_a = map(float, call(lm.constant(3.0)))
            assert (by_v, by_a) == ((36, 24) if name != "plain" and call is not f else (12, 0)), name
