"""MNIST for the peers: torchvision's data set where it is installed, else one that treats an item as it does."""
import gzip
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


def read_idx(folder, name, header):
    """The bytes after the header of FOLDER[/MNIST/raw]/NAME[.gz]."""
    for path in (Path(folder) / "MNIST" / "raw" / name, Path(folder) / name):
        if path.exists():
            return np.fromfile(path, dtype=np.uint8, offset=header)
        packed = path.with_name(name + ".gz")
        if packed.exists():
            return np.frombuffer(gzip.decompress(packed.read_bytes()), dtype=np.uint8, offset=header).copy()
    raise SystemExit(f"{folder} has no {name}: give the folder with the four MNIST files")


def read_split(folder, train):
    """All images as uint8 [N, 28, 28] and their labels as int64 [N]."""
    prefix = "train" if train else "t10k"
    images = torch.from_numpy(read_idx(folder, f"{prefix}-images-idx3-ubyte", 16)).view(-1, 28, 28)
    labels = torch.from_numpy(read_idx(folder, f"{prefix}-labels-idx1-ubyte", 8)).long()
    return images, labels


class ImageByImage(Dataset):
    """Transforms each image when it is asked for."""

    def __init__(self, folder, train, normalize):
        self.images, self.labels = read_split(folder, train)
        self.normalize = normalize

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index].unsqueeze(0).float().div(255)
        return image.sub(0.5).div(0.5) if self.normalize else image, int(self.labels[index])


def mnist(folder, train, normalize):
    """A data set whose items are transformed one by one, as nearly every script does it."""
    try:
        from torchvision import datasets, transforms
    except ImportError:
        return ImageByImage(folder, train, normalize)
    if not (Path(folder) / "MNIST" / "raw").is_dir():  # torchvision reads no other layout
        return ImageByImage(folder, train, normalize)
    steps = [transforms.ToTensor()] + ([transforms.Normalize((0.5,), (0.5,))] if normalize else [])
    return datasets.MNIST(folder, train=train, transform=transforms.Compose(steps))
