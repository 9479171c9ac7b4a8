"""Lamina from Python: lm.function of one training step and of the forward pass. usage: lamina_worker.py THREADS BATCH"""
import os
import sys
import worker

threads, size = int(sys.argv[1]), int(sys.argv[2])
worker.pin(threads)
os.environ["LAMINA_THREADS"] = str(threads)
with worker.importing() as imported:
    import lamina as lm


class HundredLayers(lm.nn.Model):
    def __init__(self):
        super().__init__()
        self.flat = lm.nn.Flatten()
        self.hidden = [lm.nn.Dense(worker.WIDTH, activation="relu") for _ in range(worker.LAYERS)]
        self.drop = lm.nn.Dropout(worker.RATE)
        self.head = lm.nn.Dense(worker.CLASSES)

    def call(self, x):
        h = self.flat(x)
        for layer in self.hidden:
            h = layer(h)
        return self.head(self.drop(h))


x, y = (lm.constant(a) for a in worker.batch(size))
net, sgd = HundredLayers(), lm.optim.SGD(worker.LEARNING_RATE)
net(x)
net.set_weights([a for layer in worker.looks_linear_weights() for a in layer])
loss = lm.losses.SparseCrossEntropy(from_logits=True)


@lm.function
def step(x, y):
    with lm.GradientTape() as tape:
        cost = loss(y, net(x, training=True))
    sgd.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
    return cost


forward = lm.function(lambda x: net(x))
plus_one, small = lm.function(lambda v: v + 1), lm.ones([4])


def repeat(call):
    def run(n):
        for _ in range(n):
            call()
        lm.synchronize()
    return run


worker.serve({"name": "Lamina Python", "threads": threads, "batch": size, **imported},
             {"step": repeat(lambda: step(x, y)), "forward": repeat(lambda: forward(x)), "cached_call": repeat(lambda: plus_one(small)),
              "eager_op": repeat(lambda: small + small)})
