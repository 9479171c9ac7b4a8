"""A first program: fits a line to noisy points with a traced training step."""
import lamina as lm

x = lm.random.uniform([200, 1], -1, 1)
y = 3 * x + 2 + 0.1 * lm.random.normal([200, 1])
line, sgd = lm.nn.Dense(1), lm.optim.SGD(0.5)


@lm.function
def step() -> lm.Tensor:
    with lm.GradientTape() as tape:
        cost = lm.mean(lm.square(line(x) - y))
    sgd.apply_gradients(zip(tape.gradient(cost, line.trainable_variables), line.trainable_variables))
    return cost


for _ in range(100): cost = step()
print(f"y = {line.kernel.item():.2f} x + {line.bias.item():.2f}, squared error {cost:.4f}, graphs traced: {step.trace_count}")
