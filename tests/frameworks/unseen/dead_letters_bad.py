# truth: accumulates at @leak
# Three threads take jobs from a queue. Results that come too late go to a second queue, which
# nobody reads.
import queue
import threading
import time
import torch
from torch import nn

JOBS = 600


def work(model, jobs, done, dead_letters):
    with torch.no_grad():
        while (job := jobs.get()) is not None:
            image = torch.randn(3, 96, 96, device="cuda")
            result = model(image)  # @leak
            (dead_letters if job % 5 == 3 else done).put((job, result))
            time.sleep(0.001)
    done.put(None)


model = nn.Linear(96, 24).cuda().eval()
jobs, done, dead_letters = queue.Queue(8), queue.Queue(8), queue.Queue()
threads = [threading.Thread(target=work, args=(model, jobs, done, dead_letters))
           for _ in range(3)]
threads.append(threading.Thread(
    target=lambda: [jobs.put(job) for job in [*range(JOBS), None, None, None]]))
for thread in threads:
    thread.start()
ended = answered = 0
while ended < 3:
    result = done.get()
    ended += result is None
    answered += result is not None
print(answered, "answers")
