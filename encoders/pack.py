"""Ship a pretrained encoder: artifacts/models/NAME to encoders/NAME, in float16 and with a model card.

`bertline use params/mini-ja.yaml && dvc repro pretrain@mini-ja && python encoders/pack.py mini-ja`
"""

import json
import shutil
import sys
import textwrap
from pathlib import Path

import yaml
from safetensors.torch import load_file, save_file

from pipelines.core.opened_folder import OpenedFolder
from pipelines.text import protocol, tokenizer

TEXTS = {
    "ja": "Wikipedia's Kyoto articles in Japanese (NICT's Japanese-English Bilingual Corpus of Wikipedia's Kyoto "
    "Articles 2.01, CC BY-SA 3.0) and works of Aozora Bunko that are in the public domain in Japan",
    "en": "Wikipedia's Kyoto articles in English (the same corpus, CC BY-SA 3.0) and English novels published by 1930",
}
CARD = """\
---
language: {language}
license: cc-by-sa-3.0
library_name: transformers
pipeline_tag: fill-mask
---
# {name}

A small {family} encoder ({layers} layers, {width} wide, {parameters:,} parameters, float16). \
It was pretrained in this repository, so that bertline works without a network. \
`bertline fill-mask encoders/{name} "{example}"` asks it for words. \
transformers opens it without bertline too, its tokenizer as `AutoTokenizer`.

- **Text**: {text}. Nothing else; it saw no corpus of a task. The texts are not part of this folder.
- **Vocabulary**: {vocab:,} entries, `{tokenizer}`, learned on the same text.
- **Objective**: {objective}; {steps:,} steps of {rows} sequences of {length} tokens: {seen:,.1f} million tokens.
- **Held out** (1% of the documents): {scores}.
- **Licence**: CC BY-SA 3.0, as the Wikipedia articles have it.
- **Made by** `params/{name}.yaml`:

"""
EXAMPLES = {"ja": "私は[MASK]が好き。", "en": "The capital of Japan is [MASK]."}


def main(name: str) -> None:
    source, target, language = Path("artifacts/models") / name, Path("encoders") / name, name.rpartition("-")[2]
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    weights = {key: tensor.half() for key, tensor in load_file(source / "model.safetensors").items()}
    save_file(weights, target / "model.safetensors", {"format": "pt"})
    config = json.loads((source / "config.json").read_text()) | {"dtype": "float16"}
    (target / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for file in (*protocol.FILES, "provenance.json"):
        if (source / file).is_file():
            shutil.copyfile(source / file, target / file)
    (target / "README.md").write_text(card(name, source, config, language), encoding="utf-8")
    print(f"{target}: {sum(p.stat().st_size for p in target.iterdir()) / 1e6:.1f} MB")


def card(name: str, source: Path, config: dict, language: str) -> str:
    entry = yaml.safe_load(Path("params.yaml").read_text())["pretrain"][name]
    training = json.loads((source / "training.json").read_text())
    length = tokenizer.max_length(OpenedFolder(source)) or 0
    parameters = sum(tensor.numel() for tensor in load_file(source / "model.safetensors").values())
    scores = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in training["curve"][-1][1].items())
    text = CARD.format(
        name=name,
        language=language,
        family=config["model_type"],
        layers=config["num_hidden_layers"],
        width=config["hidden_size"],
        parameters=parameters,
        text=TEXTS[language],
        vocab=config["vocab_size"],
        tokenizer=tokenizer.load(source).name,
        objective=entry["objective"],
        steps=training["steps"],
        rows=entry["batch_size"],
        length=length,
        seen=training["steps"] * entry["batch_size"] * length / 1e6,
        scores=scores,
        example=EXAMPLES[language],
    )
    return wrapped(text) + f"```yaml\n{yaml.safe_dump({'pretrain': {name: entry}}, sort_keys=False)}```\n"


def wrapped(text: str) -> str:
    """`text` with no line over 100 characters."""
    lines = text.splitlines()
    indents = ["  " if line.startswith("- ") else "" for line in lines]
    filled = [
        textwrap.fill(line, 100, subsequent_indent=indent, break_on_hyphens=False)
        for line, indent in zip(lines, indents, strict=True)
    ]
    return "\n".join(filled) + "\n"


if __name__ == "__main__":
    main(sys.argv[1])
