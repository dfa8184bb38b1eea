"""A plain PyTorch program, as it is written for torchrun; `lockstep run` starts it unchanged."""
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.full((2, 4), float(dist.get_rank() + step))).square().mean().backward()
    optimizer.step()
weights = [torch.zeros(1, 4) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.detach())
assert all(torch.equal(weights[0], other) for other in weights)
print(f"rank {os.environ['RANK']} of {dist.get_world_size()}: equal weights", flush=True)
dist.destroy_process_group()
