"""examples/python/char_gpt.py in PyTorch."""
import argparse
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

CONTEXT, WIDTH, HEADS, BLOCKS = 32, 64, 4, 2


def stories(count, seed):
    draw = random.Random(seed)
    people, verbs, things = ["anna", "ben", "the cook", "a sailor"], ["sees", "paints", "buys", "hides"], ["boat", "lamp", "green apple", "letter", "small drum"]
    text = ""
    for _ in range(count):
        person, thing = draw.choice(people), draw.choice(things)
        text += f"{person} {draw.choice(verbs)} a {thing}. the {thing} is {draw.choice(['new', 'old', 'lost'])}, says {person}.\n"
    return text


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        h = self.norm(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = x + self.attention(h, h, h, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return x + self.mlp(x)


class GPT(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.token, self.place = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters))

    def forward(self, codes):
        x = self.token(codes) + self.place(torch.arange(codes.shape[1]))
        return self.head(self.blocks(x))


def bigram_loss(train, test, characters):
    counts = np.ones((characters, characters))
    np.add.at(counts, (train[:-1], train[1:]), 1)
    return float(-np.log(counts / counts.sum(1, keepdims=True))[test[:-1], test[1:]].mean())


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)
    text = stories(2000, given.seed)
    alphabet = sorted(set(text))
    codes = np.array([alphabet.index(c) for c in text])
    train, test = np.split(codes, [len(codes) * 9 // 10])

    draw = np.random.default_rng(given.seed)

    def windows(codes, rows):
        """Pieces of the text [rows, CONTEXT], and the character after each of theirs."""
        at = draw.integers(len(codes) - CONTEXT, size=(rows, 1)) + np.arange(CONTEXT)
        return torch.tensor(codes[at]), torch.tensor(codes[at + 1])

    gpt = GPT(len(alphabet))
    adam = torch.optim.AdamW(gpt.parameters(), lr=0.003, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, given.steps)

    def loss(y, scores):
        return F.cross_entropy(scores.flatten(0, 1), y.flatten())

    def step(x, y):
        adam.zero_grad()
        cost = loss(y, gpt(x))
        cost.backward()
        nn.utils.clip_grad_norm_(gpt.parameters(), 1.0)
        adam.step()
        schedule.step()
        return cost

    for i in range(given.steps):
        cost = step(*windows(train, 32))
        if i % 100 == 0:
            print(f"step {i:4}: loss {cost.item():.3f}", flush=True)

    gpt.eval()
    written = list(codes[:CONTEXT])
    with torch.no_grad():
        for _ in range(120):
            chances = torch.softmax(gpt(torch.tensor(np.array([written[-CONTEXT:]])))[0, -1].double(), 0)
            written.append(draw.choice(len(alphabet), p=chances.numpy()))
        print("".join(alphabet[c] for c in written[CONTEXT:]))
        x, y = windows(test, 500)
        print(f"test loss {loss(y, gpt(x)).item():.3f}, a bigram model's {bigram_loss(train, test, len(alphabet)):.3f}")


if __name__ == "__main__":
    main()
