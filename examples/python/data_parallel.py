"""One training step on several processes: mpirun -n 4 python data_parallel.py, or python -m lamina launch -n 4 data_parallel.py.

Every process reads the digits, and takes its rows of each batch. The weights have the same bits for any number of processes from 1 to 8.

    python -m lamina launch -n 4 --restarts 3 data_parallel.py EPOCHS FOLDER

saves checkpoints in FOLDER. When a process is killed the job is started again, and goes on from the last one; so does a later run with another number of processes.
"""
import hashlib
import os
import sys

import lamina as lm

HERE = os.path.dirname(os.path.abspath(__file__))
data = os.path.join(HERE, "..", "data")
images = (lm.data.read_idx(os.path.join(data, "digits-images-idx3-ubyte.gz")).astype("float32") / 255).reshape(-1, 784)
labels = lm.data.read_idx(os.path.join(data, "digits-labels-idx1-ubyte.gz")).astype("int32")
test = [i for i in range(len(images)) if i % 5 == 0]
train = [i for i in range(len(images)) if i % 5]

lm.random.set_seed(1)  # on every rank: all begin with the same weights
net = lm.nn.Sequential([lm.nn.Dense(64), lm.nn.BatchNormalization(), lm.nn.Activation("relu"), lm.nn.Dropout(0.2), lm.nn.Dense(10)])
net(images[:1])
loss, adam = lm.losses.SparseCrossEntropy(from_logits=True), lm.optim.Adam(0.003)


@lm.distributed.data_parallel
def step(x: lm.Tensor, y: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
    """Of the whole batch: its mean loss, its statistics, one draw of dropout."""
    with lm.GradientTape() as tape:
        scores = net(x, training=True)
        cost = loss(y, scores)
    adam.apply_gradients(zip(tape.gradient(cost, net.trainable_variables), net.trainable_variables))
    return cost, lm.metrics.accuracy(y, scores)


epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
batches = lm.data.Dataset.from_tensor_slices((images[train], labels[train])).shuffle(seed=1).batch(250)  # the same order on every rank
feed = lm.distributed.shard(batches)
run = lm.Checkpoint(sys.argv[2], net, adam, feed) if len(sys.argv) > 2 else None
done = (run.restore() if run else None) or 0
if done and lm.distributed.rank() == 0:
    print(f"goes on after step {done}", flush=True)
while done < epochs * len(feed):
    for x, y in feed:  # after restore(): the pass's batches behind the last one that was saved, which may be none
        cost, accuracy = step(x, y)
        done += 1
        lm.distributed.set_step(done)  # for reports
        if run:
            run.save(done)
        if done % len(feed) == 0 and lm.distributed.rank() == 0:
            print(f"epoch {done // len(feed)}: loss {float(cost):.4f}, accuracy of the last batch {float(accuracy):.3f}", flush=True)

if lm.distributed.rank() == 0:
    found = float(lm.metrics.accuracy(labels[test], net(images[test])))
    weights = hashlib.sha256(b"".join(v.numpy().tobytes() for v in net.variables)).hexdigest()
    print(f"test accuracy {found:.3f} with {lm.distributed.size()} ranks; weights {weights[:16]}")
