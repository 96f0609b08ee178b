"""Tabulate where the tests spend their time, by file: make test && python benchmarks/durations.py --json FILE.

Reads what `make test` left in state/tests, so nothing runs here. Minutes are of this machine, the seconds of a file are
of all its tests with their fixtures, in however many processes they ran.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
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


def by_file(tests: list[ElementTree.Element]) -> tuple[Counter[str], Counter[str]]:
    """Seconds and the number of tests of each file."""
    seconds, numbers = Counter[str](), Counter[str]()
    for test in tests:
        words = test.attrib["classname"].split(".")
        name = "/".join(words[: next(i for i, word in enumerate(words, 1) if word.startswith("test_"))])
        seconds[f"{name}.py"] += float(test.attrib["time"])
        numbers[f"{name}.py"] += 1
    return seconds, numbers


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the last `make test` spent its time.")
    parser.add_argument("--json", type=Path, help="write the table here")
    to = parser.parse_args().json
    reports = [read(file) for file in PARTS]
    minutes = sum(seconds for seconds, _ in reports) / 60
    seconds, numbers = by_file([test for _, tests in reports for test in tests])
    files = [{"file": file, "tests": numbers[file], "seconds": round(spent)} for file, spent in seconds.most_common()]
    for row in files[:40]:
        print(f"{row['seconds']:>6} s  {row['tests']:>5}  {row['file']}")
    once = (round(minutes, 1),) * 2
    claim = harness.Claim("minutes_of_make_test_at_most", AIM_MINUTES, once[0], once, minutes <= AIM_MINUTES)
    harness.report([claim], ("pytest", "torch", "ray"), to, files=files)


if __name__ == "__main__":
    main()
