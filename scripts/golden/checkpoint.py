#!/usr/bin/env python3
"""The Python side of tests/checkpoint: files that lockstep must read, and checks of files it wrote.

    checkpoint.py write FOLDER     writes the files kept in tests/checkpoint/golden (no random numbers in them)
    checkpoint.py verify FOLDER    opens what the C++ test wrote there; exit code 1 and a message if wrong
    checkpoint.py --check FOLDER   whether the kept files are still what this Python writes; likewise

Needs torch 2.6 or newer.
"""
import collections
import pathlib
import sys
import tempfile
import zipfile

import torch

DTYPES = (
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 complex32 "
    "uint16 uint32 uint64 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz float8_e8m0fnu "
    "float4_e2m1fn_x2"
).split()

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.9), weight_decay=0.01),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.01),
}


def every_dtype():
    """One tensor of each dtype: the bytes 0 to 47, or 0 and 1 for bool."""
    tensors = {}
    for name in DTYPES:
        dtype = getattr(torch, name)
        raw = torch.arange(48, dtype=torch.uint8)
        tensors[name] = (raw % 2).to(torch.bool) if dtype == torch.bool else raw.view(dtype)
    return tensors


def views():
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)

    def pair():
        return torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64)

    return {
        "base": base,
        "transposed": base.t(),
        "slice": base[1:3, ::2],
        "scalar": base[2, 3],
        "row": base[3].expand(2, 6),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.arange(3, dtype=torch.float32)),
        "conj": pair().conj(),
        "neg": pair().conj().imag,
    }


def network():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    with torch.no_grad():
        for index, value in enumerate(model.state_dict().values()):
            value.copy_(torch.arange(value.numel()).reshape(value.shape) + 10 * index)
    return model


def gradient(shape, step):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float32).reshape(shape) - 2 * step) / 7


def optimizer_run(make):
    """Two steps, then the state, then what the third step makes of it."""
    parameters = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.arange(4, dtype=torch.float32))]
    optimizer = make(parameters)

    def step(number):
        for parameter in parameters:
            parameter.grad = gradient(parameter.shape, number)
        optimizer.step()

    step(0)
    step(1)
    record = {"before": [p.detach().clone() for p in parameters], "state": optimizer.state_dict()}
    record["state"] = {
        "state": {k: {n: t.clone() if torch.is_tensor(t) else t for n, t in v.items()} for k, v in record["state"]["state"].items()},
        "param_groups": record["state"]["param_groups"],
    }
    step(2)
    record["after"] = [p.detach().clone() for p in parameters]
    return record


def write_big_endian(path):
    torch.save({"x": torch.ones(2)}, path)
    with zipfile.ZipFile(path) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(name, b"big" if name.endswith("/byteorder") else content)


def write(folder):
    torch.save(every_dtype(), folder / "dtypes.pt")
    torch.save(views(), folder / "views.pt")
    torch.save(network().state_dict(), folder / "network.pt")
    torch.save({name: optimizer_run(make) for name, make in OPTIMIZERS.items()}, folder / "optimizers.pt")
    torch.save(
        {
            "model": network().state_dict(),
            "epoch": 3,
            "lr": 0.5,
            "name": "naïve ✓ 日本",
            "none": None,
            "flags": (True, False),
            "big": 2**40,
            "negative": -(2**40),
            "list": [1, "a", []],
            "size": torch.Size([2, 3]),
            "milestones": collections.Counter({5: 2}),
            7: "seven",
        },
        folder / "train.pt",
    )
    torch.save(torch.nn.Linear(2, 1), folder / "refused_module.pt")
    torch.save({"x": torch.ones(2)}, folder / "refused_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"x": {1, 2}}, folder / "refused_set.pt")
    torch.save({"x": 2**70}, folder / "refused_integer.pt")
    torch.save({"x": "y"}, folder / "refused_protocol.pt", pickle_protocol=4)
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), folder / "refused_torchscript.pt")
    write_big_endian(folder / "refused_big_endian.pt")


def bits(tensor):
    return tensor.contiguous().flatten().view(torch.uint8) if tensor.dtype != torch.bool else tensor.to(torch.uint8)


def same(left, right):
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(bits(left), bits(right))


def verify_tensors(found, expected):
    assert list(found) == list(expected), f"{list(found)} instead of {list(expected)}"
    for name, tensor in expected.items():
        assert same(found[name].detach().resolve_conj().resolve_neg(), tensor.detach().resolve_conj().resolve_neg()), name


def verify_optimizer(name, record):
    parameters = [torch.nn.Parameter(p.clone()) for p in record["before"]]
    optimizer = OPTIMIZERS[name](parameters)
    state = record["state"]
    optimizer.load_state_dict(state)
    fresh = OPTIMIZERS[name](parameters).state_dict()["param_groups"][0]
    assert set(state["param_groups"][0]) == set(fresh), f"{name}: {set(state['param_groups'][0]) ^ set(fresh)}"
    for index, parameter in enumerate(parameters):
        parameter.grad = gradient(parameter.shape, 2)
    optimizer.step()
    for parameter, after in zip(parameters, record["after"]):
        torch.testing.assert_close(parameter.detach(), after, rtol=0, atol=1e-7, msg=lambda m: f"{name}: {m}")


def verify_safetensors(folder):
    try:
        import safetensors.torch
    except ImportError:
        return
    expected = network().state_dict()
    found = safetensors.torch.load_file(folder / "network.safetensors")
    assert set(found) == set(expected)
    verify_tensors({name: found[name] for name in expected}, expected)
    safetensors.torch.save_file(expected, folder / "python.safetensors")


def verify(folder):
    for mmap in (False, True):
        verify_tensors(torch.load(folder / "dtypes.pth", mmap=mmap), every_dtype())
        found = torch.load(folder / "views.pth", mmap=mmap)
        verify_tensors(found, views())
        assert found["transposed"].data_ptr() == found["base"].data_ptr(), "sharing is lost"
        assert found["transposed"].stride() == (1, 6)
        assert found["parameter"].requires_grad and not found["base"].requires_grad
        state = torch.load(folder / "network.pth", mmap=mmap)
        assert type(state) is collections.OrderedDict
        model = network()
        verify_tensors(state, model.state_dict())
        model.load_state_dict(state, strict=True)
    torch.load(folder / "network.pth", weights_only=False)
    train = torch.load(folder / "train.pth")
    verify_tensors(train.pop("model"), network().state_dict())
    expected = torch.load(folder / "train.pt", weights_only=True)
    expected.pop("model")
    expected["size"] = (2, 3)
    assert train == expected, train
    assert isinstance(train["flags"][0], bool) and isinstance(train["lr"], float) and isinstance(train["size"], tuple)
    verify_safetensors(folder)
    optimizers = torch.load(folder / "optimizers.pth")
    assert list(optimizers) == list(OPTIMIZERS)
    for name, record in optimizers.items():
        verify_optimizer(name, record)


def content(path):
    """All that matters in a file: values with their types."""

    def plain(value):
        if isinstance(value, torch.Tensor):
            resolved = value.detach().resolve_conj().resolve_neg()
            return type(value), value.dtype, value.shape, value.stride(), bits(resolved).tolist()
        if isinstance(value, dict):
            return type(value), [(key, plain(item)) for key, item in value.items()]
        return (type(value), [plain(item) for item in value]) if isinstance(value, (list, tuple)) else value

    return plain(torch.load(path, weights_only=True))


def check(kept):
    with tempfile.TemporaryDirectory() as name:
        fresh = pathlib.Path(name)
        write(fresh)
        names = sorted(path.name for path in fresh.iterdir())
        assert names == sorted(path.name for path in kept.iterdir()), f"other files than {names} in {kept}"
        for name in names:
            # What is kept to be refused need only be there: each is a kind of file, whatever it holds.
            if not name.startswith("refused_"):
                assert content(kept / name) == content(fresh / name), f"{kept / name} differs from what Python writes"


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "verify", "--check"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "--check":
        return check(folder)
    if sys.argv[1] == "write":
        write(folder)
    else:
        verify(folder)
        print("verified")


if __name__ == "__main__":
    main()
