"""loss(y_true, y_pred, sample_weight): what fit does with it, and Keras."""
import numpy as np
import pytest

import lamina as lm


class Own(lm.losses.Loss):
    def call(self, y_true, y_pred):
        return lm.mean(lm.abs(y_true - y_pred), axis=-1)


LOSSES = [lm.losses.MeanSquaredError(), lm.losses.MeanAbsoluteError(), lm.losses.Huber(0.5), lm.losses.KLDivergence(), lm.losses.Hinge(), lm.losses.CosineSimilarity(),
          lm.losses.CategoricalCrossEntropy(), lm.losses.BinaryCrossEntropy(from_logits=True), lm.losses.Loss("mse"), Own()]


def rows(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(5, 3), (4, 6, 3)])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_each_samples_loss_is_multiplied_by_its_weight(loss, shape):
    y, p = rows(*shape), rows(*shape, seed=1)
    each = loss.per_sample(y, p).numpy()
    for of_steps in range(1, len(shape)):
        weights = rows(*shape[:of_steps], seed=2)
        expected = np.mean(each.reshape(*shape[:of_steps], -1) * weights[..., None])
        for given in (weights, weights[..., None], weights.tolist(), lm.constant(weights), weights.astype(np.float64)):
            found = loss(y, p, sample_weight=given)
            assert found.dtype == lm.float32 and found.shape == ()
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
        np.testing.assert_allclose(lm.function(loss.__call__)(y, p, lm.constant(weights)).numpy(), expected, rtol=1e-5)
    ones = loss(y, p, np.ones(shape[0], np.float32))
    np.testing.assert_allclose(ones.numpy(), loss(y, p).numpy(), rtol=1e-6)
    assert loss(y, p, None).numpy() == loss(y, p).numpy()


def test_gradients_are_those_of_the_weighted_mean():
    loss, labels, logits, weights = lm.losses.SparseCrossEntropy(from_logits=True), np.array([0, 2, 1]), lm.constant(rows(3, 4)), np.array([0.0, 1.0, 3.0], np.float32)
    found = lm.grad(lambda x: loss(labels, x, sample_weight=weights))(logits).numpy()
    assert not found[0].any()
    softmax = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(-1, keepdims=True)
    np.testing.assert_allclose(found, (softmax - np.eye(4)[labels]) * weights[:, None] / 3, rtol=1e-5, atol=1e-7)


def test_fit_and_a_call_agree():
    x, y, weights = rows(12, 3), rows(12, 2, seed=1), rows(12, seed=2)

    def net():
        lm.random.set_seed(3)
        made = lm.nn.Sequential([lm.nn.Dense(4, activation="tanh"), lm.nn.Dense(2)])
        made(x)
        return made

    one, other = net(), net()
    one.compile("sgd", "mse")
    one.fit(x, y, batch_size=12, epochs=1, sample_weight=weights, verbose=0)
    loss, optimizer = lm.losses.MeanSquaredError(), lm.optim.SGD()
    with lm.GradientTape() as tape:
        cost = loss(y, other(x), sample_weight=weights)
    optimizer.apply_gradients(zip(tape.gradient(cost, other.trainable_variables), other.trainable_variables))
    for a, b in zip(one.trainable_variables, other.trainable_variables):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("weights", [np.ones(4, np.float32), np.ones((5, 3), np.float32), np.ones((1, 5), np.float32)])
def test_weights_that_fit_no_losses_are_refused(weights):
    with pytest.raises(lm.errors.InvalidArgument, match="Loss: sample_weight of shape .* does not fit losses of shape \\(5,\\)"):
        lm.losses.MeanSquaredError()(rows(5, 3), rows(5, 3), weights)
