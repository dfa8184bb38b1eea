"""The classic MNIST jobs on Python's DistributedDataParallel, written the way users write them.

torchrun --nproc_per_node 2 mnist_ddp.py --data DIR [--recipe adam|sgd] [--epochs N] [--save FILE]

Rank 0 prints one JSON line; first_step_at is in seconds since 1970.
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from mnist_data import mnist


def make_model(recipe):
    if recipe == "adam":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def test_accuracy(model, images):
    right = 0
    with torch.no_grad():
        for data, target in DataLoader(images, batch_size=1000):
            right += (model(data).argmax(1) == target).sum().item()
    return right / len(images)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--recipe", choices=["adam", "sgd"], default="adam")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--save", default="")
    arguments = parser.parse_args()
    adam = arguments.recipe == "adam"

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    images = mnist(arguments.data, train=True, normalize=adam)
    sampler = DistributedSampler(images)
    loader = DataLoader(images, batch_size=64 if adam else 32, sampler=sampler)
    model = DistributedDataParallel(make_model(arguments.recipe))
    if adam:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * dist.get_world_size())
    criterion = nn.CrossEntropyLoss()

    report = {"epoch_s": []}
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        begin = time.time()
        for data, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(data), target)
            loss.backward()
            optimizer.step()
            report.setdefault("first_step_at", time.time())
        report["epoch_s"].append(time.time() - begin)

    dist.barrier()
    if dist.get_rank() == 0:
        report["accuracy"] = test_accuracy(model.module, mnist(arguments.data, train=False, normalize=adam))
        if arguments.save:
            torch.save(model.module.state_dict(), arguments.save)
        print(json.dumps(report), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
