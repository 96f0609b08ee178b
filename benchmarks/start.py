"""How soon a new process has a model open: a fine-tuned folder against `import torch`, and an exported one.

Each is a new Python that opens the folder with the project's one predictor and ends. The exported folder is opened
without torch, and the claim fails if it is imported.
"""

import subprocess
import sys
from pathlib import Path

import harness

ROOT = Path(__file__).resolve().parents[1]
OF_TORCH = 1 / 1.6  # opening a model may take 1.6 times as long as `import torch`
SECONDS = 1.5  # of opening an exported folder
OPEN = "from pathlib import Path; from pipelines.inference.predictor import Predictor; Predictor.load(Path({!r}), {!r})"
WITHOUT = "; import sys; assert not {'torch', 'transformers'} & set(sys.modules), 'torch or transformers is imported'"


def python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def main() -> None:
    options = harness.arguments(__doc__ or "")
    tuned, exported = ROOT / "artifacts/models/headlines", ROOT / "artifacts/onnx/headlines"
    for folder in (tuned, exported):
        if not folder.is_dir():
            sys.exit(f"{folder.relative_to(ROOT)} is not there; `make run` makes it")
    seconds = harness.in_turn(
        {
            "torch": lambda: python("import torch"),
            "tuned": lambda: python(OPEN.format(str(tuned), "torch")),
            "exported": lambda: python(OPEN.format(str(exported), "onnx") + WITHOUT),
        },
        4 if options.quick else 12,
    )
    seconds = {who: times[1:] for who, times in seconds.items()}  # the first reads the disk
    took = harness.statistics.median(seconds["exported"])
    spread = min(seconds["exported"]), max(seconds["exported"])
    low, high = (round(bound, 2) for bound in spread)
    claims = [
        harness.ratio("tuned_folder_vs_import_torch", round(OF_TORCH, 3), seconds["torch"], seconds["tuned"]),
        harness.Claim("exported_folder_seconds_at_most", SECONDS, round(took, 2), (low, high), took <= SECONDS),
    ]
    medians = {who: round(harness.statistics.median(times), 2) for who, times in seconds.items()}
    print(medians)
    harness.report(claims, ("torch", "transformers", "onnxruntime"), options.json, seconds=medians)


if __name__ == "__main__":
    main()
