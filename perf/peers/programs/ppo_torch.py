"""examples/python/ppo.py in PyTorch."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

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


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--updates", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    weights = [*policy.parameters(), *critic.parameters()]
    adam = torch.optim.Adam(weights, lr=0.002, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, given.updates)

    @torch.no_grad()
    def act(state):
        """Actions drawn from the policy, their log-probabilities, and the states' values."""
        state = torch.as_tensor(state)
        chances = Categorical(logits=policy(state))
        action = chances.sample()
        return action.numpy(), chances.log_prob(action).numpy(), critic(state)[:, 0].numpy()

    def learn(state, action, before, advantage, goal):
        chances = Categorical(logits=policy(state))
        ratio = torch.exp(chances.log_prob(action) - before)
        gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        cost = (-gain - 0.01 * chances.entropy() + 0.5 * (critic(state)[:, 0] - goal).square()).mean()
        adam.zero_grad()
        cost.backward()
        nn.utils.clip_grad_norm_(weights, 0.5)
        adam.step()

    draw = np.random.default_rng(given.seed)
    world = environments(ENVIRONMENTS)
    state, _ = world.reset(seed=given.seed)
    for update in range(given.updates):
        columns = [[] for _ in range(6)]
        states, actions, chances, rewards, values, overs = columns
        for _ in range(STEPS):
            action, chance, value = act(state)
            after, reward, fallen, late, info = world.step(action)
            if late.any():  # the episode is cut off, not over: what would have come counts
                ends = np.stack([info["final_obs"][k] if late[k] else after[k] for k in range(ENVIRONMENTS)])
                reward = reward + DISCOUNT * late * act(ends)[2]
            for column, entry in zip(columns, (state, action, chance, reward, value, fallen | late)):
                column.append(entry)
            state = after

        advantages, after_value, ahead = np.zeros((STEPS, ENVIRONMENTS), "float32"), act(state)[2], 0.0
        for t in reversed(range(STEPS)):  # generalised advantage estimation (Schulman et al. 2016)
            going = 1 - overs[t]
            ahead = rewards[t] + DISCOUNT * going * after_value - values[t] + DISCOUNT * TRACE * going * ahead
            advantages[t], after_value = ahead, values[t]
        goals = advantages + np.stack(values)
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        rows = [np.concatenate(column) for column in (states, actions, chances)] + [advantages.ravel(), goals.ravel()]
        for _ in range(EPOCHS):
            for some in draw.permutation(STEPS * ENVIRONMENTS).reshape(-1, ROWS):
                learn(*(torch.as_tensor(column[some], dtype=torch.int64 if column is rows[1] else torch.float32) for column in rows))
        schedule.step()
        if update % 5 == 4:
            print(f"update {update + 1:3}: {STEPS * ENVIRONMENTS / max(1, np.sum(overs)):6.1f} steps per episode", flush=True)

    world = environments(100)
    state, _ = world.reset(seed=given.seed + 1)
    returns, going = np.zeros(100), np.ones(100, bool)
    for _ in range(500):
        with torch.no_grad():
            action = policy(torch.as_tensor(state)).argmax(1).numpy()
        state, reward, fallen, late, _ = world.step(action)
        returns += reward * going
        going &= ~(fallen | late)
    print(f"mean return of 100 episodes {returns.mean():.1f}")


if __name__ == "__main__":
    main()
