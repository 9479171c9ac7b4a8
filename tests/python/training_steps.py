"""Training steps as users write them, for tests of plans."""
import lamina as lm


def training_step(net, optimizer):
    """step(x, y) of a classifier, which returns the loss; not traced."""
    loss = lm.losses.SparseCrossEntropy(from_logits=True)

    def step(x, y):
        with lm.GradientTape() as tape:
            cost = loss(y, net(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
        return cost

    return step


def hundred_layers():
    """The benchmark: the network with its weights, its step by SGD, and a batch."""
    net = lm.nn.Sequential([lm.nn.Flatten(), *(lm.nn.Dense(64, activation="relu") for _ in range(100)), lm.nn.Dropout(0.2), lm.nn.Dense(10)])
    x, y = lm.zeros([20, 28, 28]), lm.zeros([20], dtype=lm.int32)
    net(x)
    return net, training_step(net, lm.optim.SGD(0.003)), x, y
