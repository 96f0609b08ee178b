"""Feed mutants of every input to what reads it: rows or one sentence may come out, and nothing else.

python tests/fuzz/run.py --count 20000      all kinds, with a table of what came out, by root cause
python tests/fuzz/run.py --only 1234        one mutant again, with its traceback
"""

import argparse
import json
import os
import random
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20  # for one mutant
START_SECONDS = 900  # for imports and the whole inputs: 30 of a processor's, of which others may leave little
MEMORY_KB = 1 << 20  # more than before it
ONLY = ""  # a name of kinds.WEIGHTS; "" for all of them
FOR_ONE_WORKER = 1000  # mutants; libraries keep a little of each
MAX_SENTENCE = 1500  # characters
Outcome = dict[str, Any]


def drawn(seed: int, number: int) -> tuple[str, random.Random]:
    """The kind of a mutant, and what draws the rest of it."""
    from tests.fuzz import kinds

    rng = random.Random(f"{seed} {number}")
    chosen = {kind: weight for kind, weight in kinds.WEIGHTS.items() if ONLY in ("", kind.__name__)}
    (kind,) = rng.choices(list(chosen), list(chosen.values()))
    return kind.__name__, rng


def outcome(seed: int, number: int, debug: bool = False) -> Outcome:
    """What came of one mutant."""
    from tests.fuzz import kinds

    kind, rng = drawn(seed, number)
    return {"number": number, "kind": kind, "what": read(getattr(kinds, kind), rng, debug)}


def read(kind: Callable[[random.Random], Callable[[], object]], rng: random.Random, debug: bool = False) -> str:
    """What came of a mutant of this kind, made in the working folder."""
    from pipelines.data.corpora import livedoor

    shutil.rmtree("artifacts", ignore_errors=True)
    livedoor.read.cache_clear()
    what = result(kind(rng), debug)
    leftovers = [str(file) for file in Path("artifacts").rglob(".*.partial")]
    return f"left behind: {leftovers[0]}" if leftovers else what


def result(read: Callable[[], object], debug: bool = False) -> str:
    """What came of a mutant: "rows", "changed" (a model answered otherwise), "sentence", or the cause of a failure."""
    from pipelines.core.errors import MAX_PRINTED, InputError, one_line

    try:
        return "changed" if read() == "changed" else "rows"
    except (InputError, OSError) as error:
        sentence = one_line(error, MAX_PRINTED)
        return "sentence" if _is_sentence(sentence) else f"no sentence: {sentence[:200]!r}"
    except BaseException as error:
        if debug:
            raise
        frames = traceback.extract_tb(error.__traceback__)
        ours = next((f for f in reversed(frames) if "/pipelines/" in f.filename), frames[-1])
        return f"{type(error).__name__} at {Path(ours.filename).relative_to(ROOT)}:{ours.lineno}: {str(error)[:100]}"


def _is_sentence(sentence: str) -> bool:
    return 0 < len(sentence) <= MAX_SENTENCE and "\n" not in sentence and "Traceback" not in sentence


def work(seed: int, numbers: range) -> None:
    """Mutants in a folder of their own; a line of JSON before and after each."""
    sys.path.insert(0, str(ROOT))
    os.environ.update({"BERTLINE_QUIET": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        import torch

        from tests.fuzz import seeds

        torch.set_num_threads(1)
        seeds.make()
        output, silent = os.fdopen(os.dup(1), "w"), os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        for number in numbers:
            print(json.dumps({"number": number, "kind": drawn(seed, number)[0]}), file=output, flush=True)
            before, earlier_peak = _memory_kb()
            result = outcome(seed, number)
            _, peak = _memory_kb()
            # a peak that is no higher than an earlier one was not this mutant's
            too_much = peak > earlier_peak and peak - before > MEMORY_KB
            if too_much:
                result["what"] = f"memory: {(peak - before) >> 10} MiB"
            print(json.dumps(result), file=output, flush=True)
            if too_much:
                return


def _memory_kb() -> tuple[int, int]:
    """What is resident now, and the most that ever was."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["VmRSS"].split()[0]), int(fields["VmHWM"].split()[0])


def watched(seed: int, numbers: range) -> list[Outcome]:
    """The outcomes of all numbers, in workers that are started again when one hangs or dies."""
    done: list[Outcome] = []
    while numbers:
        stop = min(numbers.stop, numbers.start + FOR_ONE_WORKER)
        command = [
            sys.executable,
            __file__,
            "--seed",
            str(seed),
            "--kind",
            ONLY,
            "--work",
            str(numbers.start),
            str(stop),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
            outcomes, why = _listen(worker)
        if not outcomes:  # nor would the next one start
            return [*done, {"number": numbers.start, "kind": "the worker", "what": why}]
        done += [result for result in outcomes if "what" in result]
        last = outcomes[-1]
        if "what" not in last:
            done.append(last | {"what": why})
        numbers = range(last["number"] + 1, numbers.stop)
    return done


def _listen(worker: subprocess.Popen) -> tuple[list[Outcome], str]:
    """What a worker said, and how it ended."""
    assert worker.stdout is not None
    assert worker.stderr is not None
    outcomes: list[Outcome] = []
    with selectors.DefaultSelector() as waiting:
        waiting.register(worker.stdout, selectors.EVENT_READ)
        while waiting.select(SECONDS if outcomes else START_SECONDS):
            if not (line := worker.stdout.readline()):
                worker.wait()
                return outcomes, f"the process ended with status {worker.returncode}: {worker.stderr.read()[-300:]}"
            outcomes.append(json.loads(line))
    worker.kill()
    return outcomes, f"no end within {SECONDS} s" if outcomes else f"no start within {START_SECONDS} s"


def fuzz(count: int, seed: int, first: int = 0) -> list[Outcome]:
    """The outcomes of `count` mutants, two workers at a time."""
    workers = min(2, os.cpu_count() or 1)
    size = -(-count // workers)
    parts = [range(first + i * size, first + min(count, (i + 1) * size)) for i in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        return [result for part in pool.map(lambda part: watched(seed, part), parts) for result in part]


def failures(outcomes: list[Outcome]) -> list[Outcome]:
    return [result for result in outcomes if result["what"] not in ("rows", "changed", "sentence")]


def table(outcomes: list[Outcome]) -> str:
    """Counts by kind, and then every root cause with how often it came and an example."""
    lines = [f"{'kind':12} {'mutants':>8} {'rows':>8} {'changed':>8} {'sentence':>9} {'failures':>9}"]
    for kind in sorted({result["kind"] for result in outcomes}):
        of = Counter(result["what"] for result in outcomes if result["kind"] == kind)
        wrong = of.total() - of["rows"] - of["changed"] - of["sentence"]
        lines.append(f"{kind:12} {of.total():8,} {of['rows']:8,} {of['changed']:8,} {of['sentence']:9,} {wrong:9,}")
    causes = Counter(f"{failure['kind']}: {failure['what']}" for failure in failures(outcomes))
    examples = {f"{failure['kind']}: {failure['what']}": failure["number"] for failure in reversed(failures(outcomes))}
    return "\n".join(
        [*lines, *(f"{count:6} {cause}   (--only {examples[cause]})" for cause, count in causes.most_common())]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--kind", default="", help="of all kinds of inputs only this one")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    global ONLY
    ONLY = options.kind
    if options.work:
        work(options.seed, range(*options.work))
    elif options.only is not None:
        _again(options.seed, options.only)
    else:
        start = time.monotonic()
        outcomes = fuzz(options.count, options.seed)
        print(table(outcomes))
        print(f"{len(outcomes):,} mutants in {time.monotonic() - start:.0f} s")
        sys.exit(bool(failures(outcomes)))


def _again(seed: int, number: int) -> None:
    sys.path.insert(0, str(ROOT))
    place = Path(tempfile.mkdtemp(prefix="bertline-fuzz-"))
    os.chdir(place)
    from tests.fuzz import seeds

    seeds.make()
    print(f"in {place}: {outcome(seed, number, debug=True)}")


if __name__ == "__main__":
    main()
