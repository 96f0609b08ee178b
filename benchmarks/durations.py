"""Tabulate where the tests spend their time, by file: make test && python benchmarks/durations.py --json FILE.

Reads what `make test` left in state/tests, so nothing runs here. Minutes are of this machine, the seconds of a file are
of all its tests with their fixtures, in however many processes they ran. Core seconds are those of the processor, which
other work on the machine does not lengthen; processes that outlive a test, as Ray's, are left out.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import harness

AIM_MINUTES = 25
PARTS = tuple(Path("state/tests") / f"{name}.xml" for name in ("quick", "slow"))


def read(file: Path) -> tuple[float, list[ElementTree.Element]]:
    """Seconds of the run whose report `file` is, and its tests."""
    try:
        suite = ElementTree.parse(file).getroot()[0]
    except OSError as error:
        sys.exit(f"{file}: no report of a run ({error.strerror}); make test writes it")
    return float(suite.attrib["time"]), suite.findall("testcase")


def by_file(tests: list[ElementTree.Element]) -> dict[str, Counter[str]]:
    """Seconds, core seconds and the number of tests of each file."""
    seconds, cores, numbers = Counter[str](), Counter[str](), Counter[str]()
    for test in tests:
        words = test.attrib["classname"].split(".")
        name = "/".join(words[: next(i for i, word in enumerate(words, 1) if word.startswith("test_"))])
        seconds[f"{name}.py"] += float(test.attrib["time"])
        properties = {one.attrib["name"]: one.attrib["value"] for one in test.iter("property")}
        cores[f"{name}.py"] += float(properties.get("core_seconds", 0))
        numbers[f"{name}.py"] += 1
    return {"seconds": seconds, "core_seconds": cores, "tests": numbers}


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the last `make test` spent its time.")
    parser.add_argument("--json", type=Path, help="write the table here")
    to = parser.parse_args().json
    reports = [read(file) for file in PARTS]
    minutes = sum(seconds for seconds, _ in reports) / 60
    counts = by_file([test for _, tests in reports for test in tests])
    files: list[dict[str, Any]] = [
        {"file": file} | {what: round(count[file]) for what, count in counts.items()}
        for file, _ in counts["core_seconds"].most_common()
    ]
    for row in files[:40]:
        print(f"{row['core_seconds']:>6} s of a core  {row['seconds']:>6} s  {row['tests']:>5}  {row['file']}")
    once = (round(minutes, 1),) * 2
    claim = harness.Claim("minutes_of_make_test_at_most", AIM_MINUTES, once[0], once, minutes <= AIM_MINUTES)
    harness.report([claim], ("pytest", "torch", "ray"), to, files=files)


if __name__ == "__main__":
    main()
