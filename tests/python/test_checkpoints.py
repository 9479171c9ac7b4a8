"""Checkpoints: what was saved is there after kills and damage, and training that resumes has the bits of training that was not interrupted."""
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import lamina as lm
from compared import equal

LONG = os.environ.get("LAMINA_TEST_LONG") == "1"


def network():
    net = lm.nn.Sequential([lm.nn.Dense(8, "tanh"), lm.nn.BatchNorm(), lm.nn.Dropout(0.3), lm.nn.Dense(3)])
    net.compile(lm.optim.Adam(0.01), lm.losses.SparseCrossEntropy(from_logits=True), metrics=["accuracy"])
    return net


def digits():
    rng = np.random.default_rng(1)
    return rng.normal(size=(50, 4)).astype("float32"), rng.integers(0, 3, 50)


def state(net):
    return [v.numpy() for v in (*net.variables, *net.optimizer.variables)]


class Stop(lm.nn.Callback):
    def __init__(self, at):
        self.left = at

    def on_train_batch_end(self, batch, logs):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("every", ["epoch", 1, 4, 7])
def test_fit_resumes_to_the_same_bits(tmp_path, every):
    x, y = digits()
    lm.random.set_seed(3)
    whole = network()
    expected = whole.fit(x, y, batch_size=8, epochs=4, verbose=0, validation_data=(x, y))
    for stop in (5, 13, 20):
        folder = tmp_path / str(stop)
        lm.random.set_seed(3)
        with pytest.raises(KeyboardInterrupt):
            network().fit(x, y, batch_size=8, epochs=4, verbose=0, validation_data=(x, y), checkpoint=folder, checkpoint_every=every, callbacks=[Stop(stop)])
        lm.random.set_seed(99)  # another program may have drawn other numbers
        again = network()
        history = again.fit(x, y, batch_size=8, epochs=4, verbose=0, validation_data=(x, y), checkpoint=lm.Checkpoint(folder), checkpoint_every=every) if lm.Checkpoint(folder).steps() else None
        if history is None:
            assert every in ("epoch", 7) and stop == 5
            continue
        assert equal(state(again), state(whole)) and history.history == expected.history and history.epoch == expected.epoch
        assert lm.Checkpoint(folder).steps()[-1] == 4 * 7 and len(lm.Checkpoint(folder).steps()) <= 2
        more = again.fit(x, y, batch_size=8, epochs=4, verbose=0, checkpoint=folder)
        assert more.history == expected.history and equal(state(again), state(whole))  # nothing is left to do


def test_a_loop_of_ones_own_resumes_to_the_same_bits(tmp_path):
    x, y = digits()

    def parts():
        lm.random.set_seed(5)
        net = network()
        net(x[:1])
        feed = lm.data.Dataset.from_tensor_slices((x, y)).shuffle(20).batch(8)
        return net, feed, lm.Checkpoint(tmp_path, model=net, optimizer=net.optimizer, data=feed)

    net, feed, _ = parts()
    for _ in range(3):
        for a, b in feed:
            net._train_step(a, b)
    expected = state(net)
    done = 0
    while done < 21:  # "killed" after every 4 steps
        net, feed, saved = parts()
        start = done = saved.restore() or 0
        while done < min(start + 4, 21):
            for a, b in feed:
                net._train_step(a, b)
                done += 1
                saved.save(done)
                if done == min(start + 4, 21):
                    break
    assert equal(state(net), expected) and saved.steps() == [20, 21]


@pytest.mark.parametrize("repeat", [False, True])
def test_the_position_in_a_dataset(repeat):
    def made():
        data = lm.data.Dataset.from_tensor_slices(np.arange(10)).shuffle(10, seed=4)
        return (data.repeat(2) if repeat else data).batch(3)

    data, seen, places = made(), [], []
    for _ in range(3):
        for element in data:
            seen.append(element.numpy().tolist())
            places.append((data._position(), len(seen)))
        places.append((data._position(), len(seen)))
    for position, count in places:
        again = made()
        again._go_to(*position)
        assert again._position() == position  # a checkpoint that is saved before the next element
        rest = []
        while len(rest) + count < len(seen):
            rest += [e.numpy().tolist() for e in again]
        assert rest == seen[count:], position
    with pytest.raises(lm.errors.InvalidArgument, match="looped over before"):
        data._go_to(1, 2)


ROWS = np.random.default_rng(0).normal(size=(16, 2)).astype("float32")


def fits_alike(tmp_path, feed, make=None, steps=None, callbacks=lambda: [], stops=(1, 2, 3, 4, 5), same=False, every=1):
    """Whether a fit of 3 epochs that is killed in a step ends as one that is not."""
    def run(folder, *stop):
        lm.random.set_seed(7)
        net = make() if make else lm.nn.Sequential([lm.nn.Input((2,)), lm.nn.Dropout(0.2), lm.nn.Dense(1)])
        net.compile(lm.optim.Adam(0.01), "mse")
        data = feed()
        more = {"validation_data": data} if same else {}
        history = net.fit(data, epochs=3, verbose=0, steps_per_epoch=steps, checkpoint=folder, checkpoint_every=every, callbacks=[*callbacks(), *stop], **more)
        return state(net), history.history, lm.random.get_state()

    expected = run(tmp_path / "whole")
    for stop in stops:
        folder = tmp_path / f"killed {stop}"
        with pytest.raises(KeyboardInterrupt):
            run(folder, Stop(stop))
        found = run(folder)
        assert equal(found[0], expected[0]) and found[1:] == expected[1:], stop


def slices():
    return lm.data.Dataset.from_tensor_slices((ROWS, ROWS[:, :1]))


@pytest.mark.parametrize("steps", [2, 3, 4, 5])
def test_a_fit_goes_on_at_the_end_of_a_pass_of_the_data(tmp_path, steps):
    fits_alike(tmp_path, lambda: slices().shuffle(16, seed=1).batch(4), steps=steps)


@pytest.mark.parametrize("steps", [None, 3])
def test_a_fit_that_evaluates_on_its_own_data_goes_on_where_it_trained(tmp_path, steps):
    fits_alike(tmp_path, lambda: slices().shuffle(16, seed=1).batch(4), steps=steps, same=True)


@pytest.mark.parametrize("steps", [None, 3])
def test_a_callback_may_evaluate_on_the_training_data(tmp_path, steps):
    made = []

    class Look(lm.nn.Callback):
        def on_train_begin(self):
            self.model.evaluate(made[-1])

        def on_epoch_begin(self, epoch):
            self.model.evaluate(made[-1], steps=2)

    def feed():
        made.append(slices().shuffle(16, seed=1).batch(4))
        return made[-1]

    fits_alike(tmp_path, feed, steps=steps, callbacks=lambda: [Look()], stops=(1, 3, 4, 6))


def test_what_callbacks_do_as_an_epoch_begins_is_done_once(tmp_path):
    class Noise(lm.nn.Callback):
        def on_train_begin(self):
            self.model.optimizer.learning_rate.assign(0.05)

        def on_epoch_begin(self, epoch):
            self.model.layers[-1].bias.assign_add(lm.random.normal((1,)))

    fits_alike(tmp_path, lambda: slices().batch(4), callbacks=lambda: [Noise(), lm.nn.LearningRateScheduler(lambda epoch, rate: rate * 0.5)])


def test_layers_that_a_callback_unfreezes_have_the_slots_that_were_saved(tmp_path):
    class Unfreeze(lm.nn.Callback):
        def on_epoch_begin(self, epoch):
            self.model.layers[0].trainable = epoch >= 1

    def make():
        return lm.nn.Sequential([lm.nn.Input((2,)), lm.nn.Dense(2), lm.nn.Dense(2), lm.nn.Dense(1)])

    fits_alike(tmp_path, lambda: slices().batch(4), make=make, callbacks=lambda: [Unfreeze()], every=2, stops=(3, 4, 5, 7, 10))


@pytest.mark.parametrize("feed", [
    lambda: lm.data.Dataset.range(16).host_map(lambda i: (ROWS[i], ROWS[i, :1])), lambda: slices().map(lambda a, b: (a * 2, b)),
    lambda: lm.data.Dataset.from_generator(lambda: ((a, a[:1]) for a in ROWS), size=16), lambda: slices().map(lambda a, b: ((a, (a, b)), b)),
], ids=["host_map", "map", "generator", "several inputs"])
def test_a_model_without_input_is_made_as_at_the_first_batch(tmp_path, feed):
    class Net(lm.nn.Model):
        def __init__(self):
            super().__init__()
            self.dense = lm.nn.Dense(1)

        def call(self, x):
            return self.dense(x[0] + x[1][0] if isinstance(x, tuple) else x)

    fits_alike(tmp_path, lambda: feed().batch(4), make=Net, stops=(2, 5))


NOISY = {
    "map": lambda d: d.map(lambda v: v + lm.random.uniform(())),
    "filter": lambda d: d.filter(lambda v: float(lm.random.uniform(())) < 0.7),
    "map and filter": lambda d: d.map(lambda v: v + lm.random.uniform(())).filter(lambda v: v >= 0),
    "host_map": lambda d: d.host_map(lambda v: v + np.float32(float(lm.random.uniform(())))),
    "a function of its own": lambda d: d.map(lm.function(lambda v: v + lm.random.uniform(()))),
    "shuffle": lambda d: d.map(lambda v: v + lm.random.uniform(())).shuffle(5, seed=2),
    "cache": lambda d: d.map(lambda v: v + lm.random.uniform(())).cache().batch(2),
    "repeat": lambda d: d.shuffle(seed=1).map(lambda v: v + lm.random.uniform(())).repeat(2),
    "threads": lambda d: d.map(lambda v: v + lm.random.uniform(()), parallel=3).prefetch(4),
    "interleave": lambda d: d.interleave(lambda v: lm.data.Dataset.range(3).shuffle().map(lambda k: v + lm.random.uniform(())), 2, 2),
    "generator": lambda d: lm.data.Dataset.from_generator(lambda: (lm.random.uniform(()) for _ in range(12))).filter(lambda v: True),
}


@pytest.mark.parametrize("name", NOISY)
def test_elements_that_are_drawn_and_draws_beside_them_are_the_same_after_a_resume(tmp_path, name):
    def run(folder, stop):
        lm.random.set_seed(0)
        data = NOISY[name](lm.data.Dataset.range(12).map(lambda i: lm.astype(i, "float32") * 10))
        saved, seen = lm.Checkpoint(folder, data=data), []
        step = saved.restore() or 0
        while step < stop:
            for value in data:
                step += 1
                seen.append((value.numpy().tolist(), float(lm.random.uniform(()))))
                saved.save(step)
                if step == stop:
                    break
        return seen

    whole = run(tmp_path / "whole", 30)
    assert len({str(one) for one in whole}) == 30
    for stop in (1, 4, 9, 13, 20):
        folder = tmp_path / str(stop)
        assert run(folder, stop) == whole[:stop]
        assert run(folder, 30) == whole[stop:], stop


def test_the_position_is_that_of_the_loop_that_goes_on(tmp_path):
    def run(folder, stop):
        feed = lm.data.Dataset.range(8).shuffle(8, seed=1)
        saved = lm.Checkpoint(folder, data=feed)
        step, seen = saved.restore() or 0, []
        while step < 20:
            for value in feed:
                step += 1
                seen.append(int(value))
                if step % 3 == 0:  # such as an evaluation
                    len(list(feed))
                if step % 5 == 0:
                    next(iter(feed))
                saved.save(step)
                if step == stop:
                    return seen
        return seen

    whole = run(tmp_path / "whole", 24)
    for stop in range(1, 20):
        folder = tmp_path / str(stop)
        assert run(folder, stop) + run(folder, 24) == whole, stop


def test_a_position_that_cannot_be_known_is_an_error(tmp_path):
    feed = lm.data.Dataset.range(8)
    saved = lm.Checkpoint(tmp_path, data=feed)
    one, other = iter(feed), iter(feed)
    next(one)
    saved.save(1)
    next(other)
    with pytest.raises(lm.errors.StateError, match="2 loops over the Dataset have begun and not ended"):
        saved.save(2)
    del one
    saved.save(2)
    for feed in (lm.data.Dataset.range(4).repeat(2), lm.data.Dataset.range(4).cache()):
        saved = lm.Checkpoint(tmp_path, data=feed)
        one = iter(feed)
        next(one)
        list(feed)
        with pytest.raises(lm.errors.StateError, match="inside of another"):
            saved.save(3)
        assert len(list(one)) > 2
        saved.save(3)


@pytest.mark.parametrize("make", [
    lambda d: d.shuffle(seed=1).repeat(2), lambda d: d.shuffle(seed=1).cache().batch(2), lambda d: d.map(lambda v: v + lm.random.uniform(())).cache(), lambda d: d.shuffle(seed=1),
], ids=["repeat", "cache", "drawn and cached", "shuffle"])
def test_loops_that_were_left_early_count_as_far_as_they_were_read(tmp_path, make):
    def run(folder, stop):
        lm.random.set_seed(0)
        data = make(lm.data.Dataset.from_tensor_slices(np.arange(6, dtype="float32")))
        saved, seen = lm.Checkpoint(folder, data=data), []
        step = saved.restore() or 0
        while step < stop:
            for value in data:
                step += 1
                seen.append(value.numpy().tolist())
                saved.save(step)
                if step in (1, 4, 13, 14, 17, stop):
                    break
        return seen

    whole = run(tmp_path / "whole", 30)
    for stop in range(1, 28):
        folder = tmp_path / str(stop)
        assert run(folder, stop) == whole[:stop]
        if stop not in (1, 4, 13, 14, 17):  # there the program left the loop, and one that resumes goes on with it
            assert run(folder, 30) == whole[stop:], stop


def test_a_dict_of_variables_gets_its_slots_back(tmp_path):
    def start():
        v = lm.Variable([1.0, 2.0])
        adam = lm.optim.Adam(0.1)
        return v, adam, lm.Checkpoint(tmp_path, {"v": v}, adam)

    v, adam, saved = start()
    adam.apply_gradients([(lm.ones(2), v)])
    saved.save(1)
    adam.apply_gradients([(lm.ones(2), v)])
    again, other, saved = start()
    assert saved.restore() == saved.restore() == 1
    other.apply_gradients([(lm.ones(2), again)])
    assert again.numpy().tolist() == v.numpy().tolist()


def test_numbers_of_numpy_are_steps(tmp_path):
    saved = lm.Checkpoint(tmp_path, {"v": lm.Variable(1.0)}, keep=np.int64(2), every=np.int32(2))
    saved.save(np.int64(3))
    saved.save(np.int64(4))
    assert saved.steps() == [4] and type(saved.restore()) is int
    net = lm.nn.Sequential([lm.nn.Dense(1)])
    net.compile("sgd", "mse")
    for _ in range(2):
        net.fit(slices().batch(np.int64(4)), epochs=np.int64(2), steps_per_epoch=np.int64(3), verbose=0, checkpoint=tmp_path / "fit", checkpoint_every=np.int64(2))
    assert lm.Checkpoint(tmp_path / "fit").steps() == [4, 6]


def test_damaged_checkpoints_are_left_out_with_the_reason(tmp_path):
    w = lm.Variable([1.0, 2.0])
    saved = lm.Checkpoint(tmp_path, model={"w": w})
    assert saved.restore() is None and saved.steps() == []
    for step in (1, 2, 3):
        w.assign([float(step), 0.0])
        saved.save(step)
    assert saved.steps() == [2, 3]
    path = tmp_path / "step-000000000003.safetensors"
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1:])
        w.assign([0.0, 0.0])
        with pytest.warns(UserWarning, match="step 3 is left out"):
            assert lm.Checkpoint(tmp_path, model={"w": w}).restore() == 2
        assert w.numpy()[0] == 2.0
    fresh = lm.Checkpoint(tmp_path, model={"w": w})
    with pytest.warns(UserWarning):
        fresh.restore()
    second = tmp_path / "step-000000000002.safetensors"
    whole = second.read_bytes()
    second.write_bytes(whole[:-1])
    with pytest.raises(lm.errors.BadFile, match="no checkpoint is whole"):
        lm.Checkpoint(tmp_path, model={"w": w}).restore()
    second.write_bytes(whole)
    fresh.save(2)
    assert fresh.steps() == [2] and fresh.restore() == 2  # the damaged one would come after it


def test_errors(tmp_path):
    w = lm.Variable([1.0, 2.0])
    saved = lm.Checkpoint(tmp_path, model={"w": w})
    saved.save(5)
    with pytest.raises(lm.errors.InvalidArgument, match="has step 5 already"):
        saved.save(4)
    for wrong in (-1, 10**12):
        with pytest.raises(lm.errors.InvalidArgument, match="no step"):
            saved.save(wrong)
    for wrong in (1.0, True):
        with pytest.raises(lm.errors.TypeMismatch, match="the argument 'step' is a"):
            saved.save(wrong)
    with pytest.raises(lm.errors.InvalidArgument, match="keep"):
        lm.Checkpoint(tmp_path, keep=0)
    other = lm.Variable(lm.zeros(3))
    with pytest.raises(lm.errors.NotFound, match="'model/v'"):
        lm.Checkpoint(tmp_path, model={"v": other}).restore()
    with pytest.raises(lm.errors.InvalidArgument, match="(?s)has shape.*built as in the first run, or use another folder"):
        lm.Checkpoint(tmp_path, model={"w": other}).restore()
    assert other.numpy().tolist() == [0.0, 0.0, 0.0]
    x, y = digits()
    with pytest.raises(lm.errors.InvalidArgument, match="was not saved by fit"):
        network().fit(x, y, verbose=0, checkpoint=tmp_path)
    network().fit(x, y, verbose=0, checkpoint=tmp_path / "run")
    with pytest.raises(lm.errors.InvalidArgument, match="steps"):
        network().fit(x, y, verbose=0, batch_size=5, checkpoint=tmp_path / "run")
    with pytest.raises(lm.errors.InvalidArgument, match="checkpoint_every"):
        network().fit(x, y, checkpoint=tmp_path / "run", checkpoint_every=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(lm.errors.BadFile, match="cannot be used"):
        lm.Checkpoint(tmp_path / "file", model={"w": w}).save(1)


SAVES = """
import os, sys, lamina as lm
w = lm.Variable(lm.zeros(20_000))
saved = lm.Checkpoint(sys.argv[1], model={"w": w})
step = saved.restore() or 0
assert (w.numpy() == step).all(), (step, w.numpy())
print(step, flush=True)
while True:
    step += 1
    w.assign(lm.full((20_000,), float(step)))
    saved.save(step)
    print(step, flush=True)
"""


def test_kills_while_saving_lose_no_step(tmp_path):
    """The child checks, as it begins, that the last step is whole; a kill comes at a random moment after its first save."""
    draws, last = random.Random(7), 0
    for _ in range(1000 if LONG else 50):
        child = subprocess.Popen([sys.executable, "-W", "error", "-c", SAVES, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        first = child.stdout.readline()
        assert first and int(first) in (last, last + 1), (first, last)
        assert int(child.stdout.readline()) == int(first) + 1
        time.sleep(draws.random() * 0.02)
        child.send_signal(signal.SIGKILL)
        last = max([int(first) + 1, *map(int, child.communicate()[0].split())])  # those that it said it saved
    assert len(os.listdir(tmp_path)) <= 4


TRAINS = """
import sys, hashlib, numpy as np, lamina as lm
lm.random.set_seed(3)
rng = np.random.default_rng(1)
x, y = rng.normal(size=(200, 4)).astype("float32"), rng.integers(0, 3, 200)
net = lm.nn.Sequential([lm.nn.Dense(8, "tanh"), lm.nn.BatchNorm(), lm.nn.Dropout(0.3), lm.nn.Dense(3)])
net.compile(lm.optim.Adam(0.01), lm.losses.SparseCrossEntropy(from_logits=True), metrics=["accuracy"])
class Say(lm.nn.Callback):
    def on_train_batch_end(self, batch, logs): print("step", flush=True)
history = net.fit(x, y, batch_size=4, epochs=int(sys.argv[2]), verbose=0, checkpoint=sys.argv[1], checkpoint_every=17, callbacks=[Say()])
print("done", hashlib.sha256(b"".join(v.numpy().tobytes() for v in (*net.variables, *net.optimizer.variables))).hexdigest(), history.history)
"""


def test_training_that_is_killed_ends_with_the_bits_of_training_that_is_not(tmp_path):
    epochs, kills = ("200", 20) if LONG else ("10", 4)

    def begin(folder):
        return subprocess.Popen([sys.executable, "-W", "error", "-c", TRAINS, str(folder), epochs], stdout=subprocess.PIPE, text=True)

    expected = begin(tmp_path / "whole").communicate()[0].splitlines()[-1]
    assert expected.startswith("done")
    draws = random.Random(11)
    for _ in range(kills):
        child = begin(tmp_path / "killed")
        for _ in range(draws.randrange(1, 2 * int(epochs) * 50 // kills // 2)):
            if not child.stdout.readline().startswith("step"):
                break
        child.kill()
        child.communicate()
    assert begin(tmp_path / "killed").communicate()[0].splitlines()[-1] == expected
