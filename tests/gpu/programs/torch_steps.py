# SPDX-License-Identifier: MIT
# 100 training steps, or STEPS of the environment, of a network after 10 for warming up; prints the loss and a sum over all
# weights, and last the milliseconds of the 100 steps. The first argument is how often they are
# timed, or "turns": then take_turns() of timed.py times them, and 5 steps come before them. The
# second is the network: a small MLP (if it is not given), "gpt2" with four layers, "resnet"
# (ResNet-18 with small pictures), "gpt2-small" (the published GPT-2 with 124 million weights) or
# "resnet50" (the published ResNet-50). With the last two the CPU waits for the GPU, with the others
# the GPU waits for the CPU.
import os
import sys
import timed
import torch

STEPS = int(os.environ.get("STEPS", "100"))
torch.manual_seed(0)
torch.backends.cudnn.deterministic = True


def mlp():
    net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512)).cuda()
    data = torch.randn(256, 512, device="cuda")
    return net, torch.optim.Adam(net.parameters()), lambda: (net(data) - data).pow(2).mean()


def gpt2_of(batch, config):
    from transformers import GPT2LMHeadModel
    net = GPT2LMHeadModel(config).cuda()
    text = torch.randint(1000, batch, device="cuda")
    return net, torch.optim.AdamW(net.parameters(), lr=1e-4), lambda: net(text, labels=text).loss


def gpt2():
    from transformers import GPT2Config
    return gpt2_of((8, 128), GPT2Config(n_layer=4, n_head=4, n_embd=256, vocab_size=1000, n_positions=128,
                                        bos_token_id=1, eos_token_id=2))


def gpt2_small():
    from transformers import GPT2Config
    return gpt2_of((8, 256), GPT2Config())


def resnet_of(name, classes, batch, size):
    import torchvision
    net = getattr(torchvision.models, name)(num_classes=classes).cuda()
    pictures = torch.randn(batch, 3, size, size, device="cuda")
    kinds = torch.randint(classes, (batch,), device="cuda")
    return (net, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9),
            lambda: torch.nn.functional.cross_entropy(net(pictures), kinds))


def resnet():
    return resnet_of("resnet18", 10, 16, 64)


def resnet50():
    return resnet_of("resnet50", 1000, 32, 224)


NETWORKS = {"mlp": mlp, "gpt2": gpt2, "resnet": resnet, "gpt2-small": gpt2_small, "resnet50": resnet50}
net, optimizer, loss_of = NETWORKS[(sys.argv[2:] or ["mlp"])[0]]()


def step():
    optimizer.zero_grad()
    loss = loss_of()
    loss.backward()
    optimizer.step()
    return loss


def steps(count):
    global loss
    for _ in range(count):
        loss = step()
    torch.cuda.synchronize()


first = step()
for _ in range(9):
    step()
torch.cuda.synchronize()
if sys.argv[1:2] == ["turns"]:
    steps(STEPS)
    timed.take_turns(lambda: steps(STEPS), lambda: steps(5))
ms = timed.median_ms(lambda: steps(STEPS), *sys.argv[1:2])
print("loss %.9g, weights %.9g" % (loss.item(), sum(p.double().sum().item() for p in net.parameters())))
print("%.2f" % ms)
assert loss.item() < first.item()
