"""examples/python/ppo.py in JAX, with optax."""
import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

ENVIRONMENTS, STEPS, EPOCHS, ROWS = 16, 128, 6, 256
DISCOUNT, TRACE, CLIP = 0.99, 0.95, 0.2


class CartPole:
    """gymnasium.vector's interface: reset, and step, where an environment whose episode has ended begins the next one."""

    def __init__(self, count):
        self.count = count

    def reset(self, seed=None):
        self.draw, self.age = np.random.default_rng(seed), np.zeros(self.count, int)
        self.state = self.draw.uniform(-0.05, 0.05, (self.count, 4)).astype("float32")
        return self.state, {}

    def step(self, right):
        x, speed, angle, turn = self.state.T
        sine, cosine = np.sin(angle), np.cos(angle)
        push = (np.where(right, 10, -10) + 0.05 * turn * turn * sine) / 1.1
        spin = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
        slide = push - 0.05 * spin * cosine / 1.1
        self.state = np.stack([x + 0.02 * speed, speed + 0.02 * slide, angle + 0.02 * turn, turn + 0.02 * spin], 1).astype("float32")
        self.age += 1
        fallen, late = (abs(self.state[:, 0]) > 2.4) | (abs(self.state[:, 2]) > 0.2095), self.age >= 500
        info, over = {"final_obs": self.state.copy()}, fallen | late
        self.state[over], self.age[over] = self.draw.uniform(-0.05, 0.05, (over.sum(), 4)), 0
        return self.state.copy(), np.ones(self.count), fallen, late & ~fallen, info


def environments(count):
    try:
        import gymnasium
    except ImportError:
        return CartPole(count)
    return gymnasium.make_vec("CartPole-v1", count, vectorization_mode="sync", vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP})


def build(key, widths):
    glorot = jax.nn.initializers.glorot_uniform()
    return [(glorot(key, (a, b)), jnp.zeros(b)) for key, a, b in zip(jax.random.split(key, len(widths)), widths, widths[1:])]


def forward(weights, x):
    *hidden, (w, b) = weights
    for kernel, bias in hidden:
        x = jnp.tanh(x @ kernel + bias)
    return x @ w + b


def chosen(scores, action):
    return jnp.take_along_axis(scores, action[:, None], 1)[:, 0]


@jax.jit
def act(weights, key, state):
    """Actions drawn from the policy, their log-probabilities, and the states' values."""
    scores = jax.nn.log_softmax(forward(weights["policy"], state))
    action = jax.random.categorical(key, scores)
    return action, chosen(scores, action), forward(weights["critic"], state)[:, 0]


def cost(weights, state, action, before, advantage, goal):
    scores = jax.nn.log_softmax(forward(weights["policy"], state))
    ratio = jnp.exp(chosen(scores, action) - before)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)
    entropy = -jnp.sum(jnp.exp(scores) * scores, 1)
    return jnp.mean(-gain - 0.01 * entropy + 0.5 * (forward(weights["critic"], state)[:, 0] - goal) ** 2)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--updates", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    keys = iter(jax.random.split(jax.random.key(given.seed), 2 + given.updates * (2 * STEPS + 1)))
    weights = {"policy": build(next(keys), (4, 64, 64, 2)), "critic": build(next(keys), (4, 64, 64, 1))}
    updates = EPOCHS * STEPS * ENVIRONMENTS // ROWS
    adam = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(lambda i: 0.002 * (1 - i // updates / given.updates)))
    learned = adam.init(weights)

    @jax.jit(donate_argnums=(0, 1))
    def learn(weights, learned, *batches):
        """One step with each of the batches [steps, rows, ...]."""
        def step(carried, batch):
            weights, learned = carried
            change, learned = adam.update(jax.grad(cost)(weights, *batch), learned)
            return (optax.apply_updates(weights, change), learned), None

        return jax.lax.scan(step, (weights, learned), batches)[0]

    draw = np.random.default_rng(given.seed)
    world = environments(ENVIRONMENTS)
    state, _ = world.reset(seed=given.seed)
    for update in range(given.updates):
        columns = [[] for _ in range(6)]
        states, actions, chances, rewards, values, overs = columns
        for _ in range(STEPS):
            action, chance, value = map(np.asarray, act(weights, next(keys), state))
            after, reward, fallen, late, info = world.step(action)
            if late.any():  # the episode is cut off, not over: what would have come counts
                ends = np.stack([info["final_obs"][k] if late[k] else after[k] for k in range(ENVIRONMENTS)])
                reward = reward + DISCOUNT * late * np.asarray(act(weights, next(keys), ends)[2])
            for column, entry in zip(columns, (state, action, chance, reward, value, fallen | late)):
                column.append(entry)
            state = after

        advantages, after_value, ahead = np.zeros((STEPS, ENVIRONMENTS), "float32"), np.asarray(act(weights, next(keys), state)[2]), 0.0
        for t in reversed(range(STEPS)):  # generalised advantage estimation (Schulman et al. 2016)
            going = 1 - overs[t]
            ahead = rewards[t] + DISCOUNT * going * after_value - values[t] + DISCOUNT * TRACE * going * ahead
            advantages[t], after_value = ahead, values[t]
        goals = advantages + np.stack(values)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        rows = [np.concatenate(column) for column in (states, actions, chances)] + [advantages.ravel(), goals.ravel()]
        order = np.concatenate([draw.permutation(STEPS * ENVIRONMENTS) for _ in range(EPOCHS)]).reshape(-1, ROWS)
        weights, learned = learn(weights, learned, *(column[order].astype("int32" if column is rows[1] else "float32") for column in rows))
        if update % 5 == 4:
            print(f"update {update + 1:3}: {STEPS * ENVIRONMENTS / max(1, np.sum(overs)):6.1f} steps per episode", flush=True)

    greedy = jax.jit(lambda weights, state: forward(weights["policy"], state).argmax(1))
    world = environments(100)
    state, _ = world.reset(seed=given.seed + 1)
    returns, going = np.zeros(100), np.ones(100, bool)
    for _ in range(500):
        state, reward, fallen, late, _ = world.step(np.asarray(greedy(weights, state)))
        returns += reward * going
        going &= ~(fallen | late)
    print(f"mean return of 100 episodes {returns.mean():.1f}")


if __name__ == "__main__":
    main()
