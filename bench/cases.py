"""What is measured, case by case. A case returns rows; with no peers installed it leaves them out."""
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from measure import BenchError, by_turns, median_of, run, spawn
from results import Row

PEERS = Path(__file__).parent / "peers"
# What one epoch of the classic job reaches with any seed; less means that something else was timed.
LEAST_ACCURACY = 0.90


@dataclass
class Setting:
    build: Path  # build/release
    data: Path  # MNIST, gzip
    raw: Path  # MNIST as torchvision lays it out, unpacked
    python: Path | None  # with torch; None: no peers

    @property
    def lockstep(self):
        return self.build / "lockstep"

    def ours(self, *command, workers=2):
        return [self.lockstep, "run", "--nproc-per-node", workers, *command]

    def peer(self, *command, workers=2):
        return [self.python, "-m", "torch.distributed.run", "--nproc-per-node", workers, *command]

    def sides(self, ours, peer):
        return {"ours": ours, "peer": peer} if self.python else {"ours": ours}


def rows_of(results, number, what, unit, target, key):
    """One row from the medians of both sides."""
    peer = results.get("peer")
    return Row(number, what, unit, median_of(results["ours"], key), median_of(peer, key) if peer else None, target,
               "measured" if peer else "-", {side: [one[key] for one in runs] for side, runs in results.items()})


def check_accuracy(report):
    if report["accuracy"] < LEAST_ACCURACY:
        raise BenchError(f"test accuracy is {report['accuracy']}, expected at least {LEAST_ACCURACY}")
    return report


def check_saved(weights):
    if weights.stat().st_size < 800_000:
        raise BenchError(f"{weights} holds {weights.stat().st_size} bytes, too few for the weights")


def classic_job(setting):
    """The whole command, training, test and save; the first step's time comes from the same runs."""
    # Each worker notes when it started; the report counts from there.
    note_start = ["/bin/bash", "-c", 'echo "$EPOCHREALTIME" >"$0.$RANK"; exec "$@"']

    def ours():
        with tempfile.TemporaryDirectory() as folder:
            note, report, weights = Path(folder) / "started", Path(folder) / "report.json", Path(folder) / "model.pth"
            done = run(setting.ours(*note_start, note, setting.build / "examples/02_mnist_ddp", "--epochs", 1,
                                    "--data", setting.data, "--save", weights, "--report", report))
            figures = check_accuracy(json.loads(report.read_text()))
            check_saved(weights)
            started_at = float(note.with_name("started.0").read_text())
            return {"wall_s": done.wall_s, "first_step_s": started_at + figures["first_step_s"] - done.began_at}

    def peer():
        with tempfile.TemporaryDirectory() as folder:
            weights = Path(folder) / "model.pth"
            done = run(setting.peer(PEERS / "mnist_ddp.py", "--data", setting.raw, "--save", weights))
            figures = check_accuracy(done.report())
            check_saved(weights)
            return {"wall_s": done.wall_s, "first_step_s": figures["first_step_at"] - done.began_at}

    results = by_turns(3, **setting.sides(ours, peer))
    return [rows_of(results, "P1", "classic job, 1 epoch, whole command", "s", "peer/ours >= 10", "wall_s"),
            rows_of(results, "P2", "launch to first step", "s", "peer/ours >= 10", "first_step_s")]


def epoch(setting):
    """The second epoch of the job: nothing is loaded any more. One process has one thread, as each of two has."""

    def job(workers):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            run(setting.ours(setting.build / "examples/02_mnist_ddp", "--epochs", 2, "--data", setting.data, "--save",
                             Path(folder) / "model.pth", "--report", report, workers=workers), {"OMP_NUM_THREADS": "1"})
            return {"s": check_accuracy(json.loads(report.read_text()))["epoch_s"][-1]}

    def peer():
        done = run(setting.peer(PEERS / "mnist_ddp_in_memory.py", "--data", setting.raw))
        return {"s": check_accuracy(done.report())["epoch_s"][-1]}

    results = by_turns(3, alone=lambda: job(1), **setting.sides(lambda: job(2), peer))
    alone = results.pop("alone")
    ours = rows_of(results, "P3", "epoch, against Python in memory", "s", "peer/ours >= 3", "s")
    share = ours.ours / (median_of(alone, "s") / 2)
    return [ours, Row("P3", "epoch, against half of one process's", "times", share, None, "ours <= 1.25",
                      samples={"one_process_s": [one["s"] for one in alone]})]


def parts(setting):
    """Where the classic job's time goes, as rank 0 sees it."""
    reports = [check_accuracy(run(setting.ours(setting.build / "bench/bench_job", setting.data)).report())
               for _ in range(3)]

    def part(of, name):
        return median_of([report[of][name] for report in reports])

    backward, alone = part("epoch_all_reduce", "backward"), part("epoch_alone", "backward")
    whole = median_of([sum(report["epoch_all_reduce"].values()) for report in reports])
    rows = [Row("P3", "all-reduce's share of the epoch", "%", 100 * max(backward - alone, 0) / whole)]
    rows += [Row("P3", f"epoch: {name}", "ms", 1000 * part("epoch_all_reduce", name))
             for name in reports[0]["epoch_all_reduce"]]
    rows.append(Row("P3", "epoch: backward without all-reduce", "ms", 1000 * alone))
    rows.append(Row("P1", "stage: load_program", "ms", 1000 * median_of([one["load_program"] for one in reports])))
    return rows + [Row("P1", f"stage: {name}", "ms", 1000 * part("stages", name)) for name in reports[0]["stages"]]


def memory(setting):
    """Peak memory over the bare loop, in percent of the gradients' bytes."""

    def extra(launch, program):
        bare = run(launch(*program, "bare")).report()
        ddp = run(launch(*program, "ddp")).report()
        return {"%": 100 * (ddp["peak_rss_mb"] - bare["peak_rss_mb"]) / ddp["gradients_mb"],
                "bare_mb": bare["peak_rss_mb"], "ddp_mb": ddp["peak_rss_mb"]}

    results = by_turns(3, 60, **setting.sides(
        lambda: extra(setting.ours, [setting.build / "bench/bench_memory"]),
        lambda: extra(setting.peer, [PEERS / "memory.py"])))
    ours = rows_of(results, "P6", "DDP's peak memory over the bare loop, of the gradients", "%", "ours <= 5", "%")
    ours.samples = results
    return [ours]


def launcher(setting):
    """Two /bin/true under the launcher, less two by themselves; the memory of the launcher's processes."""

    def above_programs(command, processes):
        bare, launched = spawn(setting.build, 2, ["/bin/true"]), spawn(setting.build, 1, command)
        # The peak is the largest process's: all of the launcher's have at most so much each.
        return {"ms": launched["wall_ms"] - bare["wall_ms"], "mb": launched["peak_rss_mb"] * processes}

    results = by_turns(5, 40, **setting.sides(
        lambda: above_programs(setting.ours("/bin/true"), processes=2),
        lambda: above_programs(setting.peer("--no-python", "/bin/true"), processes=1)))
    many = [spawn(setting.build, 1, setting.ours("/bin/true", workers=256))["wall_ms"] / 1000 for _ in range(3)]
    return [rows_of(results, "P8", "launcher: time above two /bin/true", "ms", "ours <= 20", "ms"),
            rows_of(results, "P8", "launcher: peak memory", "MB", "ours <= 10", "mb"),
            Row("P8", "launcher: 256 x /bin/true", "s", median_of(many), None, "ours <= 1", samples={"ours": many})]


def loader(setting):
    """Batches of 64, ToTensor and Normalize, by processor time."""

    def ours():
        done = run([setting.build / "bench/bench_loader", "--benchmark_format=json", "--benchmark_min_time=0.3"],
                   {"LOCKSTEP_BENCH_DATA": str(setting.data)})
        figures = json.loads(done.output[done.output.index("{\n"):])["benchmarks"]
        return {"M/s": figures[0]["items_per_second"] / 1e6}

    def peer():
        done = run([setting.python, PEERS / "loader.py", "--data", setting.raw])
        return {"M/s": done.report()["images_per_core_s"] / 1e6}

    results = by_turns(3, 30, **setting.sides(ours, peer))
    return [rows_of(results, "P9", "loader: images a core", "million/s", "ours >= 2", "M/s")]


CASES = {"P1+P2 classic job": classic_job, "P3 epoch": epoch, "P1+P3 where the time goes": parts, "P6 memory": memory,
         "P8 launcher": launcher, "P9 loader": loader}
