# truth: clean
# Trains a ResNet-18 on random pictures in epochs of 20 steps, with an evaluation after each.
import torch
import torchvision

EPOCHS, STEPS = 6, 20
torch.manual_seed(0)
torch.backends.cudnn.deterministic = True
model = torchvision.models.resnet18(num_classes=10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for epoch in range(EPOCHS):
    model.train()
    for step in range(STEPS):
        x, y = torch.randn(16, 3, 64, 64, device="cuda"), torch.randint(10, (16,), device="cuda")
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = [model(torch.randn(16, 3, 64, 64, device="cuda")).argmax(1) for _ in range(10)]
print("%.9g" % loss.item())
