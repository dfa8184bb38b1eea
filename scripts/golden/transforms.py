#!/usr/bin/env python3
"""What torchvision's ToTensor and Normalize make of each byte value, for tests/data/transforms_test.cpp.

    python3 scripts/golden/transforms.py > tests/data/golden/transforms.json
    python3 scripts/golden/transforms.py --check tests/data/golden/transforms.json     exits 1 where they differ

Uses torchvision where it is installed, else the tensor operations that it consists of. Values are the bits of
float32 numbers, so that equal means equal.
"""
import argparse
import json
import sys

import torch

try:
    from torchvision.transforms.functional import normalize
except ImportError:

    def normalize(image, mean, std):
        mean = torch.as_tensor(mean, dtype=image.dtype).view(-1, 1, 1)
        std = torch.as_tensor(std, dtype=image.dtype).view(-1, 1, 1)
        return image.clone().sub_(mean).div_(std)


PARAMETERS = [None, (0.5, 0.5), (0.1307, 0.3081), (-1.7, 3e-3)]


def bits(image):
    return [f"{value & 0xFFFFFFFF:08x}" for value in image.flatten().view(torch.int32).tolist()]


def cases():
    every_byte = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    to_tensor = every_byte.to(dtype=torch.get_default_dtype()).div(255)
    for parameters in PARAMETERS:
        image = to_tensor if parameters is None else normalize(to_tensor, parameters[:1], parameters[1:])
        yield dict(normalize=parameters, bits=" ".join(bits(image)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", metavar="FILE")
    arguments = parser.parse_args()
    text = "[\n" + ",\n".join(json.dumps(case) for case in cases()) + "\n]\n"
    if not arguments.check:
        sys.stdout.write(text)
    elif open(arguments.check).read() != text:
        sys.exit(f"{arguments.check} differs from what this Python's transforms do")


main()
