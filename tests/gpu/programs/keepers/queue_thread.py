# SPDX-License-Identifier: MIT
# keeper: `received` in writer()
"""A thread that writes outputs collects them until the end of the training. With the argument "clean" it
writes each one at once."""
import queue
import sys
import threading

import torch

STEPS = 3000
CLEAN = sys.argv[1:] == ["clean"]


def network():
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()


def batch():
    return torch.randn(64, 256, device="cuda"), torch.randint(10, (64,), device="cuda")


def train_step(model, optimizer):
    x, y = batch()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def writer(outputs):
    received = []
    while True:
        output = outputs.get()
        if output is None:
            print(len(received))
            return
        received.append(output.sum().item() if CLEAN else output)
        del output


def main():
    model = network()
    optimizer = torch.optim.Adam(model.parameters())
    outputs = queue.Queue(8)
    thread = threading.Thread(target=writer, args=(outputs,))
    thread.start()
    for _ in range(STEPS):
        train_step(model, optimizer)
        with torch.no_grad():
            outputs.put(model(batch()[0]))
    outputs.put(None)
    thread.join()


main()
