#!/usr/bin/env python3
"""Weights after 20 steps of Python's DistributedDataParallel on two ranks, for tests/parity/golden_weights_test.cpp.

    python3 scripts/golden/ddp_weights.py > tests/parity/golden/ddp_weights.json
    python3 scripts/golden/ddp_weights.py --check tests/parity/golden/ddp_weights.json     exits 1 where they differ

First weights, inputs and labels are formulas, not random numbers: the C++ test computes the same ones.
"""
import argparse
import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing

RANKS, STEPS, ROWS = 2, 20, 8
WIDTHS = (20, 16, 10)
OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.001),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
}
TOLERANCE = 1e-6


def network():
    net = torch.nn.Sequential(
        torch.nn.Linear(WIDTHS[0], WIDTHS[1]), torch.nn.ReLU(), torch.nn.Linear(WIDTHS[1], WIDTHS[2])
    )
    with torch.no_grad():
        for number, parameter in enumerate(net.parameters(), start=1):
            values = torch.cos(torch.arange(parameter.numel(), dtype=torch.float64) * number) * 0.25
            parameter.copy_(values.view(parameter.shape))
    return net


def batch(step, rank):
    values = torch.arange(ROWS * WIDTHS[0], dtype=torch.float64) * 0.37 + 5 * step + 100 * rank
    labels = (torch.arange(ROWS) * 7 + step * 3 + rank) % WIDTHS[-1]
    return torch.sin(values).view(ROWS, -1).float(), labels


def train(optimizer_name):
    model = torch.nn.parallel.DistributedDataParallel(network())
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    losses = []
    for step in range(STEPS):
        inputs, labels = batch(step, dist.get_rank())
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().flatten().tolist() for parameter in model.module.parameters()]


def run_rank(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    results = {name: train(name) for name in OPTIMIZERS}
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(results, file)
    dist.barrier()
    dist.destroy_process_group()


def golden():
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, args=(folder,), nprocs=RANKS)
        ranks = [json.load(open(f"{folder}/{rank}.json")) for rank in range(RANKS)]
    result = {}
    for name in OPTIMIZERS:
        weights = [rank[name][1] for rank in ranks]
        assert weights[0] == weights[1], f"{name}: the two ranks' weights differ"
        result[name] = dict(losses=[rank[name][0] for rank in ranks], weights=weights[0])
    return result


def rounded(value):
    """Nine digits hold a float32 exactly."""
    return [rounded(item) for item in value] if isinstance(value, list) else float(f"{value:.9g}")


def flat(value):
    return [number for item in value for number in flat(item)] if isinstance(value, list) else [value]


def differences(stored, found):
    for name in OPTIMIZERS:
        for what in ("losses", "weights"):
            left, right = flat(stored[name][what]), flat(found[name][what])
            gap = max(map(abs, (a - b for a, b in zip(left, right))), default=0)
            if len(left) != len(right) or not gap <= TOLERANCE:
                yield f"{name}: {what} differ by {gap} ({len(left)} and {len(right)} numbers)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", metavar="FILE")
    arguments = parser.parse_args()
    found = golden()
    if not arguments.check:
        compact = {n: {w: rounded(values) for w, values in parts.items()} for n, parts in found.items()}
        print(json.dumps(compact, separators=(",", ":")).replace("],", "],\n"))
        return
    with open(arguments.check) as file:
        wrong = list(differences(json.load(file), found))
    if wrong:
        sys.exit(f"{arguments.check} differs from what this Python's DDP does: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
