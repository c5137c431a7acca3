# truth: accumulates at @leak
# Segments twenty video clips. A preview of each, large, stays in a dictionary under its name.
import time
import torch
from torch import nn

CLIPS = 20
FRAMES = 8

PREVIEWS = {}


def segment(model, name):
    frames = []
    for _ in range(FRAMES):
        frame = torch.randn(512, 512, device="cuda")
        frames.append(model(frame))
        time.sleep(0.005)
    clip = torch.stack(frames)  # @leak
    PREVIEWS[name] = clip[FRAMES // 2]
    return clip.mean().item()


network = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
network.eval()
with torch.no_grad():
    network(torch.randn(512, 512, device="cuda"))
    for number in range(CLIPS):
        print(number, segment(network, "clip-%03d.mp4" % number))
