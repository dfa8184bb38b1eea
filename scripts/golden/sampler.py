#!/usr/bin/env python3
"""The order of Python's torch.utils.data.DistributedSampler, for tests/data/distributed_sampler_test.cpp.

    python3 scripts/golden/sampler.py > tests/data/golden/sampler.json
    python3 scripts/golden/sampler.py --check tests/data/golden/sampler.json     exits 1 where they differ

Each case holds the arguments and, per rank, the number of indices, the first few of them, and a hash of all
(64-bit FNV-1a over the indices as little-endian int64): a small file for large datasets.
"""
import argparse
import json
import struct
import sys

from torch.utils.data import DistributedSampler

SIZES = [1, 2, 7, 22, 499, 60000]
REPLICAS = [1, 2, 3, 8]
SEEDS_AND_EPOCHS = [(0, 0), (0, 1), (42, 3), (2**40 + 5, 1), (-3, 1)]
SHOWN = 3


def fnv1a(values):
    result = 0xCBF29CE484222325
    for byte in b"".join(struct.pack("<q", value) for value in values):
        result = (result ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{result:016x}"


def order(size, replicas, rank, shuffle, seed, epoch, drop_last):
    sampler = DistributedSampler(range(size), replicas, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)


def cases():
    for size in SIZES:
        for replicas in REPLICAS:
            for shuffle in (True, False):
                for drop_last in (True, False):
                    for seed, epoch in SEEDS_AND_EPOCHS if shuffle else [(0, 0)]:
                        if size > 1000 and (seed, epoch) not in [(0, 0), (42, 3)]:
                            continue
                        arguments = dict(shuffle=shuffle, seed=seed, epoch=epoch, drop_last=drop_last)
                        ranks = []
                        for rank in range(replicas):
                            indices = order(size, replicas, rank, **arguments)
                            ranks.append([len(indices), indices[:SHOWN], fnv1a(indices)])
                        yield dict(size=size, replicas=replicas, **arguments, ranks=ranks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", metavar="FILE")
    arguments = parser.parse_args()
    text = "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases()) + "\n]\n"
    if not arguments.check:
        sys.stdout.write(text)
    elif open(arguments.check).read() != text:
        sys.exit(f"{arguments.check} differs from what this Python's DistributedSampler does")


main()
