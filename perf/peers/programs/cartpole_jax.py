"""examples/python/cartpole.py in JAX, with optax."""
import argparse
import time

import jax
import jax.numpy as jnp
import optax

STEPS, EPISODES = 200, 64
adam = optax.adam(0.01)


def policy(weights, x):
    (w1, b1), (w2, b2) = weights
    return jnp.tanh(x @ w1 + b1) @ w2 + b2


def moved(state, right):
    x, speed, angle, turn = state.T
    force = jnp.where(right, 10.0, -10.0)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (force + 0.05 * turn * turn * sine) / 1.1
    spin = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1))
    slide = push - 0.05 * spin * cosine / 1.1
    return jnp.stack([x + 0.02 * speed, speed + 0.02 * slide, angle + 0.02 * turn, turn + 0.02 * spin], 1)


def episodes(weights, key, count, sample):
    start_key, key = jax.random.split(key)

    def one(carried, key):
        state, going = carried
        scores = policy(weights, state)
        lean = scores[:, 1] - scores[:, 0]
        right = jax.random.uniform(key, (count,)) < jax.nn.sigmoid(lean) if sample else lean > 0
        state = jax.lax.stop_gradient(moved(state, right))
        taken = jax.nn.log_sigmoid(jnp.where(right, lean, -lean))
        upright = (jnp.abs(state[:, 0]) < 2.4) & (jnp.abs(state[:, 2]) < 0.2095)
        return (state, going & upright), (taken, going.astype(jnp.float32))

    start = jax.random.uniform(start_key, (count, 4), jnp.float32, -0.05, 0.05)
    return jax.lax.scan(one, (start, jnp.ones(count, bool)), jax.random.split(key, STEPS))[1]


def cost(weights, key):
    taken, going = episodes(weights, key, EPISODES, True)
    to_come = jnp.cumsum(going[::-1], 0)[::-1]
    many = jnp.sum(going, 1, keepdims=True) + 1e-6
    gain = (to_come - jnp.sum(to_come * going, 1, keepdims=True) / many) * going
    scale = jnp.sqrt(jnp.sum(gain * gain) / jnp.sum(going)) + 1e-6
    return -jnp.sum(taken * gain / scale) / jnp.sum(going), jnp.mean(jnp.sum(going, 0))


@jax.jit
def train(weights, key, updates):
    def update(_, carried):
        weights, state, key, _ = carried
        key, own = jax.random.split(key)
        (_, reached), slope = jax.value_and_grad(cost, has_aux=True)(weights, own)
        change, state = adam.update(slope, state)
        return optax.apply_updates(weights, change), state, key, reached

    weights, _, _, reached = jax.lax.fori_loop(0, updates, update, (weights, adam.init(weights), key, jnp.float32(0)))
    return weights, reached


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--updates", type=int, default=60)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    keys, glorot = jax.random.split(jax.random.key(given.seed), 6), jax.nn.initializers.glorot_uniform()
    weights = ((glorot(keys[0], (4, 32)), jnp.zeros(32)), (glorot(keys[1], (32, 2)), jnp.zeros(2)))
    test = jax.jit(lambda weights, key: jnp.mean(jnp.sum(episodes(weights, key, 100, False)[1], 0)))
    before = float(test(weights, keys[5]))
    train(weights, keys[2], 1)[1].block_until_ready()
    start = time.perf_counter()
    weights, reached = train(weights, keys[3], given.updates - 1)
    reached.block_until_ready()
    seconds = time.perf_counter() - start
    print(f"mean return of 100 episodes before training   {before:8.1f}")
    print(f"of the last {EPISODES} episodes while training       {float(reached):8.1f}")
    print(f"of 100 episodes after training                {float(test(weights, keys[4])):8.1f}")
    print(f"{given.updates - 1} updates of {EPISODES} episodes, {STEPS} steps each   {seconds:8.2f} s, {seconds / max(1, given.updates - 1) * 1e3:.1f} ms each")


if __name__ == "__main__":
    main()
