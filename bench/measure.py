"""Running programs and taking their measure."""
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


class BenchError(Exception):
    """A program failed, or its result is wrong: there is nothing to time."""


@dataclass
class Run:
    began_at: float  # seconds since 1970
    wall_s: float
    output: str

    def report(self):
        """The JSON object that the program printed on a line of its own."""
        for line in reversed(self.output.splitlines()):
            start = line.find("{")
            if start >= 0:
                try:
                    return json.loads(line[start:])
                except ValueError:
                    continue
        raise BenchError(f"no report in the output:\n{last_lines(self.output)}")


def last_lines(text, count=15):
    return "\n".join(text.splitlines()[-count:])


def run(command, environment=None, timeout=120):
    """Runs to the end; BenchError unless the exit code is 0."""
    words = [str(word) for word in command]
    began_at, begin = time.time(), time.monotonic()
    try:
        done = subprocess.run(words, env={**os.environ, **(environment or {})}, timeout=timeout, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as late:
        raise BenchError(f"not done after {timeout} s: {' '.join(words)}") from late
    wall_s = time.monotonic() - begin
    if done.returncode != 0:
        raise BenchError(f"exit code {done.returncode}: {' '.join(words)}\n{last_lines(done.stdout)}")
    return Run(began_at, wall_s, done.stdout)


def spawn(build, copies, command):
    """Copies of a program at once, started by a small program: {wall_ms, peak_rss_mb}."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        run([build / "bench/bench_spawn", report, copies, *command])
        return json.loads(report.read_text())


def by_turns(rounds, budget_s=90, **sides):
    """Calls each side once a round, in the opposite order every other round: what disturbs one disturbs all.

    On a slow or busy machine, no round begins that would not end within the budget. Returns a list for each side.
    """
    results = {name: [] for name in sides}
    begin = time.monotonic()
    for number in range(rounds):
        spent = time.monotonic() - begin
        if number > 0 and spent + spent / number > budget_s:
            break
        names = list(sides) if number % 2 == 0 else list(reversed(sides))
        for name in names:
            results[name].append(sides[name]())
    return results


def median_of(results, key=None):
    return statistics.median(result[key] if key else result for result in results)


def machine():
    """What a figure means nothing without."""
    cpu = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    memory = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())[1])
    return {"cpu": cpu[1] if cpu else os.uname().machine, "cores": len(os.sched_getaffinity(0)),
            "memory_gb": round(memory / 2**20), "kernel": os.uname().release,
            "load_at_start": round(os.getloadavg()[0], 2)}
