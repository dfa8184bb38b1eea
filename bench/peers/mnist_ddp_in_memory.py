"""The job of mnist_ddp.py as fast as Python gets it: images stay bytes in memory, a batch is one indexing
operation, gradients are views of the buckets, Adam is fused.

torchrun --nproc_per_node 2 mnist_ddp_in_memory.py --data DIR [--epochs N]      Rank 0 prints one JSON line.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mnist_data import read_split

BATCH = 64


def to_input(images):
    return images.float().div_(127.5).sub_(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    images, labels = read_split(arguments.data, train=True)
    images = images.view(-1, 784)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, fused=True)
    criterion = nn.CrossEntropyLoss()

    epoch_s = []
    for epoch in range(arguments.epochs):
        begin = time.time()
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for index in order[dist.get_rank() :: dist.get_world_size()].split(BATCH):
            optimizer.zero_grad()
            criterion(parallel(to_input(images[index])), labels[index]).backward()
            optimizer.step()
        epoch_s.append(time.time() - begin)

    if dist.get_rank() == 0:
        test, target = read_split(arguments.data, train=False)
        with torch.no_grad():
            right = (model(to_input(test.view(-1, 784))).argmax(1) == target).sum().item()
        print(json.dumps({"epoch_s": epoch_s, "accuracy": right / len(target)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
