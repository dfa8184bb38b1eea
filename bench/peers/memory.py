"""Peak memory of a few training steps with 100 MB of gradients, as bench/memory.cpp does it.

torchrun --nproc_per_node 2 memory.py bare|ddp      Rank 0 prints one JSON line.
"""
import json
import os
import resource
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH, BATCH, STEPS = 24, 1024, 8, 5


def share_mb():
    """This process's share of the memory that it maps, in MiB."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def main():
    torch.manual_seed(0)
    layers = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH, bias=False), nn.ReLU()]
    model = nn.Sequential(*layers)
    parameters = list(model.parameters())
    distributed = sys.argv[1] == "ddp"
    if distributed:
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    data = torch.randn(BATCH, WIDTH)
    share = 0
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(data).square().mean().backward()
        share = max(share, share_mb())
        optimizer.step()
    if os.environ.get("RANK", "0") == "0":
        gradients = sum(parameter.nbytes for parameter in parameters) / 2**20
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"gradients_mb": gradients, "share_mb": share, "peak_rss_mb": peak}), flush=True)
    if distributed:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
