"""Cart-pole: environment, policy, gradient and update in one traced loop, which learns to balance.

    ./dev python examples/python/cartpole.py [--updates N] [--seed N]

The equations of motion are those of Barto, Sutton and Anderson (1983). An episode ends when the pole leans more than 12 degrees, when the
cart is more than 2.4 from the middle, or after 200 steps. The policy is a network of 4, 32 and 2 units; its gradient is REINFORCE (Williams
1992) with the mean return of the same time step as baseline. The goal is a mean return of 195 over 100 episodes.
"""
import argparse
import time

import lamina as lm

STEPS, EPISODES = 200, 64
State = tuple[lm.Tensor, lm.Tensor]


def moved(state: lm.Tensor, right: lm.Tensor) -> lm.Tensor:
    """The states [episodes, 4] after 1/50 second; right: whether the cart is pushed to the right."""
    x, speed, angle, turn = state[:, 0], state[:, 1], state[:, 2], state[:, 3]
    force = lm.where(right, 10.0, -10.0)
    sine, cosine = lm.sin(angle), lm.cos(angle)
    push = (force + 0.05 * turn * turn * sine) / 1.1
    spin = (9.8 * sine - cosine * push) / (0.5 * (4.0 / 3.0 - 0.1 * cosine * cosine / 1.1))
    slide = push - 0.05 * spin * cosine / 1.1
    return lm.stack([x + 0.02 * speed, speed + 0.02 * slide, angle + 0.02 * turn, turn + 0.02 * spin], 1)


def upright(state: lm.Tensor) -> lm.Tensor:
    return lm.logical_and(lm.abs(state[:, 0]) < 2.4, lm.abs(state[:, 2]) < 0.2095)


def episodes(policy: lm.nn.Model, count: int, sample: bool) -> tuple[lm.Tensor, lm.Tensor]:
    """Log-probabilities of the actions taken, and 1 while an episode lasts, both [STEPS, count]."""
    def one(carried: State, _: None) -> tuple[State, tuple[object, lm.Tensor]]:
        state, going = carried
        scores = policy(state)
        lean = scores[:, 1] - scores[:, 0]
        right = lm.random.uniform((count,)) < lm.sigmoid(lean) if sample else lean > 0
        state = lm.stop_gradient(moved(state, right))
        taken = -lm.softplus(lm.where(right, -lean, lean))
        return (state, lm.logical_and(going, upright(state))), (taken, going.astype(lm.float32))

    start = lm.random.uniform((count, 4), -0.05, 0.05)
    _, (taken, going) = lm.scan(one, (start, lm.ones((count,), dtype=lm.bool)), length=STEPS)
    return taken, going


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--updates", type=int, default=60)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)
    policy = lm.nn.Sequential([lm.nn.Input((4,)), lm.nn.Dense(32, activation="tanh"), lm.nn.Dense(2)])
    adam = lm.optim.Adam(0.01)

    @lm.function
    def train(updates: lm.Tensor) -> lm.Tensor:
        reached = lm.constant(0.0)
        for _ in lm.range(updates):
            with lm.GradientTape() as tape:
                taken, going = episodes(policy, EPISODES, True)
                to_come = lm.cumsum(going, axis=0, reverse=True)
                many = lm.sum(going, axis=1, keepdims=True) + 1e-6
                gain = (to_come - lm.sum(to_come * going, axis=1, keepdims=True) / many) * going
                scale = lm.sqrt(lm.sum(gain * gain) / lm.sum(going)) + 1e-6
                cost = -lm.sum(taken * gain / scale) / lm.sum(going)
            adam.apply_gradients(zip(tape.gradient(cost, policy.trainable_variables), policy.trainable_variables))
            reached = lm.mean(lm.sum(going, axis=0))
        return reached

    @lm.function
    def test() -> lm.Tensor:
        return lm.mean(lm.sum(episodes(policy, 100, False)[1], axis=0))

    before = float(test())
    train(lm.constant(1))
    start = time.perf_counter()
    last = float(train(lm.constant(given.updates - 1)))
    seconds = time.perf_counter() - start
    print(f"mean return of 100 episodes before training   {before:8.1f}")
    print(f"of the last {EPISODES} episodes while training       {last:8.1f}")
    print(f"of 100 episodes after training                {float(test()):8.1f}")
    print(f"{given.updates - 1} updates of {EPISODES} episodes, {STEPS} steps each   {seconds:8.2f} s, {seconds / max(1, given.updates - 1) * 1e3:.1f} ms each, {train.trace_count} graph")


if __name__ == "__main__":
    main()
