"""The model folders that are fuzzed, as `kinds` has the other inputs: fine-tuned, exported, published, our formats."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.compression import variant
from pipelines.inference.predictor import Predictor
from pipelines.stages import import_weights
from tests.fuzz import files, mutate, seeds
from tests.support import own_formats

Run = Callable[[], object]
# sizes that no weights have, and what a list or a text in place of a number does
HOSTILE = (-1, 0, -(10**9), 10**6, 10**9, 10**12, 2**63, 10**30, 1.5, "8", [8], None, True, [10**9], {"0": 2})
# keys that transformers, or the formats, read where they stand; few configs have them
ODD_KEYS: dict[str, Any] = {
    "return_dict": False, "num_labels": 10**9, "output_attentions": True, "chunk_size_feed_forward": 7,
    "is_decoder": True, "add_cross_attention": True, "torch_dtype": "float16", "dtype": "no",
    "pruned_heads": {"0": [0]}, "auto_map": {"AutoConfig": "x.Y"}, "quantization_config": {"quant_method": "x"},
    "layer_types": ["x"] * 9, "attn_implementation": "flash_attention_2", "bertline_int8": ["x"], "bertline_qdq": {},
    "bertline_packed": {"x": []}, "bertline_reshaped": {"heads": [10**9, 1]}, "problem_type": "regression",
    "id2label": {"0": "x"}, "num_hidden_layers": 10**9, "tie_word_embeddings": 3,
    "position_embedding_type": "relative_key",
}  # fmt: skip


def model(rng: random.Random) -> Run:
    """A fine-tuned model's folder, or an exported one, opened and asked."""
    kind = rng.choice(list(seeds.KINDS))
    source = Path("seeds") / kind / rng.choice(("model", "model", "onnx") if kind == "single" else ("model",))
    files.copied(source, Path("model"))
    files.change_one(Path("model"), rng)
    return lambda: _asked(kind, source)


def own_format(rng: random.Random) -> Run:
    """A model in a format that this project alone reads: opened, asked, and what variant.json says of it."""
    source = Path("seeds/own") / rng.choice(own_formats.NAMES)
    files.copied(source, Path("model"))
    if rng.random() < 0.7:
        own_formats.forget_config(Path("model"))
    if rng.random() < 0.2:
        files.change_one(Path("model"), rng)
    else:
        file = Path("model") / rng.choice(("config.json", "config.json", "config.json", "variant.json"))
        values = json.loads(file.read_bytes())
        file.write_bytes(mutate.as_json(hostile(values, rng), rng))

    def read() -> object:
        answer = _asked("single", source)
        variant.facts(Path("model"))
        return answer

    return read


def hostile(values: Any, rng: random.Random) -> Any:
    """A config with a key that few have, a size that no weights have, or any other change."""
    way = rng.randrange(3)
    if way == 0:
        return values | {name: ODD_KEYS[name] for name in rng.sample(list(ODD_KEYS), 1)} if CHANGES else values
    if way == 1 and CHANGES:
        return mutate.sized(values, HOSTILE, rng)
    return mutate.changed(values, rng)


CHANGES = True  # whether `hostile` changes anything


def _asked(kind: str, source: Path) -> object:
    """Ask the mutant in model/ for rows of the kind; seeds.CHANGED if it answers other than its `source`."""
    same = Predictor.load(Path("model")).predict(seeds.readable(kind)).equals(seeds.answers(source, kind))
    return None if same else seeds.CHANGED


def published(rng: random.Random) -> Run:
    """A published checkpoint's folder, through the stage import_weights."""
    files.copied(Path("seeds/encoder"), Path("elsewhere"))
    files.change_one(Path("elsewhere"), rng)
    entry: dict[str, Any] = {"source": "elsewhere"}
    Path("params.yaml").write_bytes(mutate.as_yaml({"import_weights": {"it": entry}}))
    return lambda: import_weights.main("it")
