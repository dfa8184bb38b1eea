#!/usr/bin/env python3
"""Measures lockstep, and its peers by turns, against the targets: ./dev bench [--peers] [--only P3] [--record].

Timings compare only within one run. The exit code is 1 when a program failed or gave a wrong result; a target
that is not met is said in the table.
"""
import argparse
import datetime
import gzip
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import cases
import results
from measure import BenchError, machine, run

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "bench/results"
METHOD = ("Each figure is the median of up to 5 rounds, in which ours and the peer ran by turns on the same machine, "
          "the order turned each round. Other work may have run beside them: compare ratios, not times.")


def unpack(data, folder):
    """torchvision reads unpacked files only; unpacking is no part of what is timed."""
    raw = folder / "MNIST/raw"
    raw.mkdir(parents=True, exist_ok=True)
    for packed in data.glob("*.gz"):
        target = raw / packed.stem
        if not target.exists():
            with gzip.open(packed) as source, open(target.with_suffix(".partial"), "wb") as partial:
                shutil.copyfileobj(source, partial)
            target.with_suffix(".partial").rename(target)
    return folder


def first_line(command):
    try:
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=True, cwd=ROOT)
        return done.stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def libtorch_version(build):
    """Of the library that the programs load."""
    library = re.search(r"libtorch_cpu\.so => (\S+)", run(["ldd", build / "bench/bench_job"]).output)
    header = Path(library[1]).parent.parent / "include/torch/headeronly/version.h"
    return ".".join(re.findall(r"define TORCH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text()))


def versions(build, python):
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    lines = {"lockstep": first_line(["git", "describe", "--always", "--dirty"]), "libtorch": libtorch_version(build),
             "compiler": first_line([compiler[1], "--version"])}
    if python:
        lines["python torch"] = first_line([python, "-c", "import torch; print(torch.__version__)"])
        lines["torchvision"] = first_line([python, "-c", "import torchvision; print(torchvision.__version__)"])
    return lines


def measure(setting, only):
    """All rows, and what could not be measured."""
    rows, failures = [], []
    for name, case in cases.CASES.items():
        if only and not set(name.split()[0].split("+")) & only:
            continue
        print(f"{name} ...", end=" ", flush=True)
        begin = time.monotonic()
        try:
            found = case(setting)
            rows += found
            print(f"{time.monotonic() - begin:.0f} s: {results.short(found[0].ours)} {found[0].unit}", flush=True)
        except BenchError as failure:
            failures.append(f"{name}: {failure}")
            print(f"failed: {failure}", flush=True)
    return rows, failures


def main():
    parser = argparse.ArgumentParser(prog="./dev bench")
    parser.add_argument("--peers", action="store_true", help="measure the peers too, else their recorded figures show")
    parser.add_argument("--only", default="", metavar="P1,P8", help="only the cases of these targets")
    parser.add_argument("--record", action="store_true", help="keep the figures in bench/results (with --peers)")
    parser.add_argument("--build", type=Path, help="what to measure [build/release]")
    arguments = parser.parse_args()
    if arguments.record and (not arguments.peers or arguments.only or arguments.build):
        parser.error("--record needs --peers, all cases, and what ./dev bench has built from this tree")
    python = ROOT / ".deps/python/bin/python" if arguments.peers else None
    if python and not python.exists():
        parser.error("no Python with torch in .deps/python: run  ./dev bench --peers")

    data = ROOT / "data/mnist"
    setting = cases.Setting((arguments.build or ROOT / "build/release").resolve(), data, unpack(data, ROOT / "build/bench-data"), python)
    result = {"date": datetime.date.today().isoformat(), "command": " ".join(["./dev bench", *sys.argv[1:]]),
              "machine": machine(), "versions": versions(setting.build, python), "method": METHOD}
    rows, failures = measure(setting, set(filter(None, arguments.only.split(","))))
    recorded, source = results.latest(RECORDED)
    if not arguments.peers:
        results.fill_recorded(rows, recorded)
    rows.sort(key=lambda row: row.number)
    result.update(rows=[row.as_dict() for row in rows], failures=failures)
    text = json.dumps(result, indent=1) + "\n"
    (ROOT / "build/bench.json").write_text(text)
    if arguments.record and not failures:
        name = f"{result['date']}-{results.kind(result['machine'])}"
        (RECORDED / f"{name}.json").write_text(text)
        (RECORDED / f"{name}.md").write_text(results.markdown(result, rows))
    if any(row.peer_is == "recorded" for row in rows):
        print(f"\nPeers as recorded in bench/results/{source}; --peers measures them here.")
    print(f"\n{results.table(rows)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
