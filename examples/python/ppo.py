"""Proximal policy optimisation (Schulman et al. 2017) on CartPole-v1, whose episodes last at most 500 steps.

    ./dev python examples/python/ppo.py [--updates N] [--seed N]

gymnasium's environment is used where it is installed, and otherwise the same equations in NumPy (Barto, Sutton and Anderson 1983). It runs
outside of the graph: one traced function acts, another one learns.
"""
import argparse
from typing import Any

import numpy as np

import lamina as lm

nn = lm.nn
ENVIRONMENTS, STEPS, EPOCHS, ROWS = 16, 128, 6, 256
DISCOUNT, TRACE, CLIP = 0.99, 0.95, 0.2


class CartPole:
    """gymnasium.vector's interface: reset, and step, where an environment whose episode has ended begins the next one."""

    def __init__(self, count: int) -> None:
        self.count = count

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.draw, self.age = np.random.default_rng(seed), np.zeros(self.count, int)
        self.state = self.draw.uniform(-0.05, 0.05, (self.count, 4)).astype("float32")
        return self.state, {}

    def step(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
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


def environments(count: int) -> Any:
    try:
        import gymnasium  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return CartPole(count)
    return gymnasium.make_vec("CartPole-v1", count, vectorization_mode="sync", vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP})


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--updates", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)
    policy = nn.Sequential([nn.Input((4,)), nn.Dense(64, "tanh"), nn.Dense(64, "tanh"), nn.Dense(2)])
    critic = nn.Sequential([nn.Input((4,)), nn.Dense(64, "tanh"), nn.Dense(64, "tanh"), nn.Dense(1)])
    weights = policy.trainable_variables + critic.trainable_variables
    adam = lm.optim.Adam()

    @lm.function
    def act(state: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor, lm.Tensor]:
        """Actions drawn from the policy, their log-probabilities, and the states' values."""
        scores = lm.log_softmax(policy(state))
        right = (lm.random.uniform((scores.shape[0],)) < lm.exp(scores[:, 1])).astype(lm.int32)
        return right, lm.take_along_axis(scores, right[:, None], 1)[:, 0], critic(state)[:, 0]

    @lm.function
    def learn(state: lm.Tensor, action: lm.Tensor, before: lm.Tensor, advantage: lm.Tensor, goal: lm.Tensor) -> lm.Tensor:
        with lm.GradientTape() as tape:
            scores = lm.log_softmax(policy(state))
            ratio = lm.exp(lm.take_along_axis(scores, action[:, None], 1)[:, 0] - before)
            gain = lm.minimum(ratio * advantage, lm.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage)
            entropy = -lm.sum(lm.exp(scores) * scores, 1)
            cost = lm.mean(-gain - 0.01 * entropy + 0.5 * lm.square(critic(state)[:, 0] - goal))
        gradients, _ = lm.optim.clip_by_global_norm(tape.gradient(cost, weights), 0.5)
        adam.apply_gradients(zip(gradients, weights))
        return cost

    draw = np.random.default_rng(given.seed)
    world = environments(ENVIRONMENTS)
    state, _ = world.reset(seed=given.seed)
    for update in range(given.updates):
        adam.learning_rate = 0.002 * (1 - update / given.updates)
        columns: list[list[Any]] = [[] for _ in range(6)]
        states, actions, chances, rewards, values, overs = columns
        for _ in range(STEPS):
            action, chance, value = (part.numpy() for part in act(state))
            after, reward, fallen, late, info = world.step(action)
            if late.any():  # the episode is cut off, not over: what would have come counts
                ends: Any = np.stack([info["final_obs"][k] if late[k] else after[k] for k in range(ENVIRONMENTS)])
                reward = reward + DISCOUNT * late * act(ends)[2].numpy()
            for column, entry in zip(columns, (state, action, chance, reward, value, fallen | late)):
                column.append(entry)
            state = after

        advantages, after_value, ahead = np.zeros((STEPS, ENVIRONMENTS), "float32"), act(state)[2].numpy(), 0.0
        for t in reversed(range(STEPS)):  # generalised advantage estimation (Schulman et al. 2016)
            going = 1 - overs[t]
            ahead = rewards[t] + DISCOUNT * going * after_value - values[t] + DISCOUNT * TRACE * going * ahead
            advantages[t], after_value = ahead, values[t]
        goals = advantages + np.stack(values)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        rows = [np.concatenate(column) for column in (states, actions, chances)] + [advantages.ravel(), goals.ravel()]
        for _ in range(EPOCHS):
            for some in draw.permutation(STEPS * ENVIRONMENTS).reshape(-1, ROWS):
                learn(*(column[some] for column in rows))
        if update % 5 == 4:
            print(f"update {update + 1:3}: {STEPS * ENVIRONMENTS / max(1, np.sum(overs)):6.1f} steps per episode", flush=True)

    world = environments(100)
    state, _ = world.reset(seed=given.seed + 1)
    returns, going = np.zeros(100), np.ones(100, bool)
    for _ in range(500):
        state, reward, fallen, late, _ = world.step(policy(state).numpy().argmax(1))
        returns += reward * going
        going &= ~(fallen | late)
    print(f"mean return of 100 episodes {returns.mean():.1f}")


if __name__ == "__main__":
    main()
