# truth: clean
# Trains a GPT-2 of four layers on random text, and evaluates and generates in between.
import torch
from transformers import GPT2Config, GPT2LMHeadModel

STEPS = 120
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_head=4, n_embd=256, vocab_size=1000, n_positions=128,
                                   bos_token_id=1, eos_token_id=2)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(STEPS):
    text = torch.randint(1000, (8, 16 + step % 100), device="cuda")
    optimizer.zero_grad()
    loss = model(text, labels=text).loss
    loss.backward()
    optimizer.step()
    if step % 30 == 29:
        with torch.no_grad():
            model.generate(text[:1, :4], max_new_tokens=40, do_sample=False, pad_token_id=2)
print("%.9g" % loss.item())
