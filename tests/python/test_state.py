"""State dicts."""
import numpy as np
import pytest

import lamina as lm

nn = lm.nn


class Net(nn.Model):
    def __init__(self):
        super().__init__()
        self.hidden = [nn.Dense(4, activation="tanh"), nn.Dense(4)]
        self.heads = {"a": nn.Dense(1), "b": nn.BatchNorm()}
        self.scale = lm.Variable(2.0)

    def call(self, x):
        for layer in self.hidden:
            x = layer(x)
        return self.heads["b"](self.heads["a"](x)) * self.scale


def built():
    net = Net()
    net(lm.ones([2, 3]))
    return net


def test_a_state_dict_names_what_leads_to_each_variable():
    state = built().state_dict()
    assert list(state) == ["hidden.0.kernel", "hidden.0.bias", "hidden.1.kernel", "hidden.1.bias", "heads.a.kernel", "heads.a.bias", "heads.b.gamma",
                           "heads.b.beta", "heads.b.moving_mean", "heads.b.moving_variance", "scale"]
    assert all(isinstance(v, np.ndarray) for v in state.values()) and state["hidden.0.kernel"].shape == (3, 4)
    flat = nn.Sequential([nn.Dense(2), nn.Dense(1)])
    flat(lm.ones([1, 3]))
    assert list(flat.state_dict()) == ["0.kernel", "0.bias", "1.kernel", "1.bias"]


def test_a_state_goes_through_a_file_without_pickle(tmp_path):
    one, other = built(), built()
    x = lm.random.normal([5, 3])
    np.savez(tmp_path / "net.npz", **one.state_dict())
    assert not np.array_equal(one(x).numpy(), other(x).numpy())
    with np.load(tmp_path / "net.npz", allow_pickle=False) as state:
        other.load_state_dict(state)
    np.testing.assert_array_equal(one(x).numpy(), other(x).numpy())


def test_a_state_that_does_not_fit_changes_nothing():
    net = built()
    state = net.state_dict()
    kept = {k: v.copy() for k, v in state.items()}

    def refused(error, match, **changes):
        wrong = {k: v + 1 for k, v in kept.items()}
        for name, value in changes.items():
            if value is None:
                del wrong[name.replace("__", ".")]
            else:
                wrong[name.replace("__", ".")] = value
        with pytest.raises(error, match=match):
            net.load_state_dict(wrong)
        for name, value in net.state_dict().items():
            np.testing.assert_array_equal(value, kept[name])

    refused(KeyError, "'hidden.1.bias' of net.* is not in the state dict", hidden__1__bias=None)
    refused(KeyError, "has no 'hidden.9.bias'", hidden__9__bias=np.zeros(3, "float32"))
    refused(ValueError, r"hidden.0.kernel of net.* has shape \(3, 4\), the state dict's has \(4, 3\)", hidden__0__kernel=np.zeros((4, 3), "float32"))
    refused(TypeError, "scale of net.* is float32, the state dict's is float64", scale=np.float64(3))
    with pytest.raises(TypeError, match="a list is not a state dict"):
        net.load_state_dict([1, 2])
    with pytest.raises(RuntimeError, match="do not exist yet"):
        nn.Dense(3).load_state_dict({})
    net.load_state_dict({"scale": np.float32(7), "other": np.zeros(1)}, strict=False)
    assert net.scale.numpy() == 7


def test_bfloat16_weights_come_as_float32():
    layer = nn.Dense(2, dtype="bfloat16")
    layer(lm.ones([1, 3], dtype="bfloat16"))
    state = layer.state_dict()
    assert state["kernel"].dtype == np.float32
    other = nn.Dense(2, dtype="bfloat16")
    other(lm.ones([1, 3], dtype="bfloat16"))
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.state_dict()["kernel"], state["kernel"])


def test_training_goes_on_where_the_states_were_taken():
    x, y = lm.random.normal([16, 3]), lm.random.normal([16, 1])

    def trained(net, optimizer, steps):
        for _ in range(steps):
            with lm.GradientTape() as tape:
                cost = lm.losses.mse(y, net(x, training=True))
            variables = net.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(cost, variables), variables))

    one, optimizer = built(), lm.optim.Adam(0.01)
    trained(one, optimizer, 3)
    model_state, optimizer_state = one.state_dict(), optimizer.state_dict()
    assert len(optimizer_state) == 2 + 2 * len(one.trainable_variables)
    trained(one, optimizer, 3)

    other, fresh = built(), lm.optim.Adam(0.5)
    other.load_state_dict(model_state)
    with pytest.raises(KeyError):
        fresh.load_state_dict(optimizer_state)
    fresh.build(other.trainable_variables)
    fresh.load_state_dict(optimizer_state)
    assert fresh.iterations.numpy() == 3
    trained(other, fresh, 3)
    for name, value in one.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], value)
