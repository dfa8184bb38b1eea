"""Rows of the table, the targets they are held against, and the files they are kept in."""
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Row:
    number: str  # P1, P2, ... of the list of targets
    what: str
    unit: str
    ours: float
    peer: float | None = None
    target: str = ""  # "peer/ours >= 10", "ours <= 20", ...; empty: for the reader only
    peer_is: str = "-"  # measured, recorded, or - where there is none
    samples: dict = field(default_factory=dict)

    @property
    def ratio(self):
        return self.peer / self.ours if self.peer is not None and self.ours else None

    @property
    def met(self):
        """True, False, or None where there is nothing to hold against the target."""
        rule = re.fullmatch(r"(\S+) (<=|>=) ([\d.]+)", self.target)
        value = {"ours": self.ours, "peer/ours": self.ratio}.get(rule[1]) if rule else None
        if value is None:
            return None
        return value <= float(rule[3]) if rule[2] == "<=" else value >= float(rule[3])

    def as_dict(self):
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def latest(folder):
    """The newest recorded result, and its file's name; nothing where there is none."""
    files = sorted(Path(folder).glob("????-??-??-*.json"))
    return (json.loads(files[-1].read_text()), files[-1].name) if files else ({"rows": []}, "")


def fill_recorded(rows, recorded):
    peers = {(row["number"], row["what"]): row["peer"] for row in recorded["rows"]}
    for row in rows:
        peer = peers.get((row.number, row.what))
        if row.peer is None and peer is not None:
            row.peer, row.peer_is = peer, "recorded"


def short(value):
    if value is None:
        return "-"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def cells(row):
    peer = short(row.peer) + (" (recorded)" if row.peer_is == "recorded" else "")
    met = {True: "yes", False: "NO", None: "-"}[row.met]
    return [row.number, f"{row.what} [{row.unit}]", short(row.ours), peer, short(row.ratio), row.target or "-", met]


HEAD = ["P", "what", "ours", "peer", "peer/ours", "target", "met"]


def table(rows):
    lines = [HEAD] + [cells(row) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def markdown(result, rows):
    facts = {"command": f"`{result['command']}`", **result["machine"], **result["versions"]}
    head = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    lines = [HEAD, ["---"] * len(HEAD), *map(cells, rows)]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"# Measured on {result['date']}\n{head}\n\n{result['method']}\n\n{body}\n"


def kind(machine):
    """A name for this sort of machine: 2-core-amd-epyc."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"\(.*?\)|@.*|\bcpu\b|processor", "", machine["cpu"].lower()))
    return "-".join([str(machine["cores"]), "core", *words[:4]])
