"""examples/python/digits.py in PyTorch."""
import argparse
import copy
import gzip
import os

import numpy as np
import torch
from torch import nn

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "data")


def read_idx(path):
    with gzip.open(path) as f:
        raw = f.read()
    shape = np.frombuffer(raw, ">i4", raw[3], 4)
    return np.frombuffer(raw, "uint8", offset=4 + 4 * raw[3]).reshape(shape)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    torch.manual_seed(given.seed)

    images = torch.tensor(read_idx(os.path.join(DATA, "digits-images-idx3-ubyte.gz"))[:, None].astype("float32") / 255)
    labels = torch.tensor(read_idx(os.path.join(DATA, "digits-labels-idx1-ubyte.gz")).astype("int64"))
    test = torch.arange(len(labels)) % 5 == 4  # the files are sorted by digit
    images, labels, test_images, test_labels = images[~test], labels[~test], images[test], labels[test]

    net = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(800, 64), nn.ReLU(), nn.Linear(64, 10),
    )
    print(net)
    print("parameters:", sum(p.numel() for p in net.parameters()))
    adam, loss = torch.optim.Adam(net.parameters(), lr=0.003, fused=True), nn.CrossEntropyLoss()
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda epoch: 1 - epoch / given.epochs)

    @torch.no_grad()
    def evaluate():
        net.eval()
        scores = net(test_images)
        return loss(scores, test_labels).item(), (scores.argmax(1) == test_labels).float().mean().item()

    best, waited, weights = float("inf"), 0, net.state_dict()
    for epoch in range(given.epochs):
        net.train()
        total, right = 0.0, 0
        for rows in torch.randperm(len(images)).split(32):
            x, y = images[rows], labels[rows]
            adam.zero_grad()
            scores = net(x)
            cost = loss(scores, y)
            cost.backward()
            adam.step()
            total += cost.item() * len(x)
            right += (scores.argmax(1) == y).sum().item()
        schedule.step()
        total, right = total / len(images), right / len(images)
        valid_loss, valid_accuracy = evaluate()
        print(f"epoch {epoch + 1}/{given.epochs}: loss {total:.4f}, accuracy {right:.4f}, val_loss {valid_loss:.4f}, val_accuracy {valid_accuracy:.4f}")
        if total < best:
            best, waited, weights = total, 0, copy.deepcopy(net.state_dict())
        else:
            waited += 1
            if waited >= 2:
                break
    net.load_state_dict(weights)
    final, accuracy = evaluate()
    print(f"test accuracy {accuracy:.3f}, loss {final:.3f}")


if __name__ == "__main__":
    main()
