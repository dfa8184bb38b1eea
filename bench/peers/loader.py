"""Images a second that one core turns into batches of 64: python loader.py --data DIR. Prints one JSON line."""
import argparse
import json
import time

import torch
from torch.utils.data import DataLoader, Subset

from mnist_data import mnist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    torch.set_num_threads(1)
    images = Subset(mnist(parser.parse_args().data, train=False, normalize=True), range(3200))
    begin = time.process_time()
    seen = sum(len(target) for _, target in DataLoader(images, batch_size=64, shuffle=True))
    print(json.dumps({"images_per_core_s": seen / (time.process_time() - begin)}), flush=True)


if __name__ == "__main__":
    main()
