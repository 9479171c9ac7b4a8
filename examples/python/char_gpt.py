"""A character GPT on a text that it makes itself, compared with a bigram model.

    ./dev python examples/python/char_gpt.py [--steps N] [--seed N]
"""
import argparse
import math
import random
from typing import Any

import numpy as np

import lamina as lm

nn = lm.nn
CONTEXT, WIDTH, HEADS, BLOCKS = 32, 64, 4, 2


def stories(count: int, seed: int) -> str:
    draw = random.Random(seed)
    people, verbs, things = ["anna", "ben", "the cook", "a sailor"], ["sees", "paints", "buys", "hides"], ["boat", "lamp", "green apple", "letter", "small drum"]
    text = ""
    for _ in range(count):
        person, thing = draw.choice(people), draw.choice(things)
        text += f"{person} {draw.choice(verbs)} a {thing}. the {thing} is {draw.choice(['new', 'old', 'lost'])}, says {person}.\n"
    return text


class Block(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(), nn.MultiHeadAttention(HEADS, WIDTH // HEADS)
        self.mlp = nn.Sequential([nn.LayerNorm(), nn.Dense(4 * WIDTH, "gelu"), nn.Dense(WIDTH)])

    def call(self, x: lm.Tensor) -> Any:
        h = self.norm(x)
        x = x + self.attention(h, h, use_causal_mask=True)
        return x + self.mlp(x)


class GPT(nn.Model):
    def __init__(self, characters: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = [Block() for _ in range(BLOCKS)]
        self.head = nn.Sequential([nn.LayerNorm(), nn.Dense(characters)])

    def call(self, codes: lm.Tensor) -> Any:
        x = self.token(codes) + self.place(lm.arange(codes.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def bigram_loss(train: np.ndarray, test: np.ndarray, characters: int) -> float:
    counts = np.ones((characters, characters))
    np.add.at(counts, (train[:-1], train[1:]), 1)
    return float(-np.log(counts / counts.sum(1, keepdims=True))[test[:-1], test[1:]].mean())


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    lm.random.set_seed(given.seed)
    text = stories(2000, given.seed)
    alphabet = sorted(set(text))
    codes = np.array([alphabet.index(c) for c in text], "int32")
    train, test = np.split(codes, [len(codes) * 9 // 10])

    draw = np.random.default_rng(given.seed)

    def windows(codes: np.ndarray, rows: int) -> tuple[Any, Any]:
        """Pieces of the text [rows, CONTEXT], and the character after each of theirs."""
        at = draw.integers(len(codes) - CONTEXT, size=(rows, 1)) + np.arange(CONTEXT)
        return codes[at], codes[at + 1]

    gpt, adam = GPT(len(alphabet)), lm.optim.AdamW()
    loss = lm.losses.SparseCrossEntropy(from_logits=True)

    @lm.function
    def step(x: lm.Tensor, y: lm.Tensor) -> lm.Tensor:
        with lm.GradientTape() as tape:
            cost = loss(y, gpt(x))
        gradients, _ = lm.optim.clip_by_global_norm(tape.gradient(cost, gpt.trainable_variables), 1.0)
        adam.apply_gradients(zip(gradients, gpt.trainable_variables))
        return cost

    for i in range(given.steps):
        adam.learning_rate = 0.0015 * (1 + math.cos(math.pi * i / given.steps))
        cost = step(*windows(train, 32))
        if i % 100 == 0:
            print(f"step {i:4}: loss {float(cost):.3f}", flush=True)

    scores = lm.function(gpt)
    written = list(codes[:CONTEXT])
    for _ in range(120):
        chances = np.asarray(lm.softmax(scores(np.array([written[-CONTEXT:]], "int32"))[0, -1]), "float64")
        written.append(draw.choice(len(alphabet), p=chances / chances.sum()))
    print("".join(alphabet[c] for c in written[CONTEXT:]))
    x, y = windows(test, 500)
    print(f"test loss {float(loss(y, scores(x))):.3f}, a bigram model's {bigram_loss(train, test, len(alphabet)):.3f}")


if __name__ == "__main__":
    main()
