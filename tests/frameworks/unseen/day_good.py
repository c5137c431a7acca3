# truth: clean
# A server over a day: the number of open sessions rises until the afternoon and falls to the night.
# A session that is silent for long is closed.
import collections
import torch
from torch import nn

REQUESTS = 2000
BUSIEST = 60


def wanted_sessions(time_of_day):
    rising = time_of_day / 0.6
    return int(BUSIEST * (rising if rising < 1 else (1 - time_of_day) / 0.4)) + 5


model = nn.Linear(32, 32).cuda().eval()
sessions = collections.OrderedDict()
served = 0
with torch.no_grad():
    for request in range(REQUESTS):
        number = request % wanted_sessions(request / REQUESTS)
        if number not in sessions:
            sessions[number] = [torch.zeros(16, 32, device="cuda"), 0]
        session = sessions[number]
        session[0] = model(session[0] + torch.randn(16, 32, device="cuda"))
        session[1] = request
        sessions.move_to_end(number)
        while request - next(iter(sessions.values()))[1] > 2 * BUSIEST:
            sessions.popitem(last=False)
        served += 1
print(served, "requests,", len(sessions), "sessions at night")
