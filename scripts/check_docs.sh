#!/usr/bin/env bash
# Checks the documents: links, headings they point to, commands of ./dev, paths and flags in backticks, and that the
# README's program is the compiled one. Prints file:line for each fault; exits 1 when there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

exec python3 - <<'PYTHON'
import glob
import os
import re
import subprocess
import sys

TOPS = ("src", "include", "tests", "docs", "examples", "scripts", "cmake", "third_party", "data", "bench", ".ci")
faults = []


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def listed(*patterns):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted({name for name in found if name and os.path.exists(name)})


def slugs(path):
    """The anchors that a page's headings make."""
    headings = re.findall(r"^#+ +(.+)$", re.sub(r"^```.*?^```", "", read(path), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


documents = listed("*.md")
dev_commands = set(re.findall(r"^  ([a-z]+)(?: \||\))", read("dev").split("case $command in")[1], re.M))
flag_sources = "\n".join(read(name) for name in listed("src/launch/*", "src/tools/*", "examples/*", "scripts/*",
                                                        "tests/support/*", "bench/*.py", "dev"))


def check_links(document, number, line):
    for target in re.findall(r"\]\(([^)\s]+)\)", line):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        if not os.path.exists(path):
            faults.append(f"{document}:{number}: the link {target} leads nowhere")
        elif anchor and anchor not in slugs(path):
            faults.append(f"{document}:{number}: {path} has no heading #{anchor}")


def check_word(document, number, word):
    dev = re.match(r"(?:\S+=\S+ )*\./dev(?: ([a-z]+))?", word)
    if dev and dev.group(1) and dev.group(1) not in dev_commands:
        faults.append(f"{document}:{number}: ./dev has no command '{dev.group(1)}'")
    if re.fullmatch(r"[\w.*/-]+", word) and word.split("/")[0] in TOPS and "/" in word:
        beside = os.path.join(os.path.dirname(document), word)
        if not glob.glob(word) and not glob.glob(beside):
            faults.append(f"{document}:{number}: there is no {word}")
    flag = re.match(r"--([a-z][a-z_-]*)", word)
    if flag and flag.group(1).replace("_", "-") not in flag_sources.replace("_", "-"):
        faults.append(f"{document}:{number}: no command takes --{flag.group(1)}")


for document in documents:
    fenced = False
    for number, line in enumerate(read(document).split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
            continue
        if fenced:
            for command in re.findall(r"(?:^|&& )(\./dev [a-z]+)", line):
                check_word(document, number, command)
            continue
        check_links(document, number, line)
        for word in re.findall(r"`([^`]+)`", line):
            check_word(document, number, word)

program = read("tests/headers/readme_snippet.cpp").split("\n", 1)[1]
shown = re.search(r"^```cpp\n(.*?)^```", read("README.md"), re.M | re.S)
if shown is None or shown.group(1) != program:
    faults.append("README.md:1: its program is not that of tests/headers/readme_snippet.cpp")

for page in listed("docs/*.md"):
    if f"({page})" not in read("README.md"):
        faults.append(f"{page}:1: the README does not lead to it")

print("\n".join(faults) if faults else f"{len(documents)} documents: no faults")
sys.exit(1 if faults else 0)
PYTHON
