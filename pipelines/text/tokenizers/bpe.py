"""bpe: byte-level byte-pair encoding, as in GPT-2 and RoBERTa (Radford et al. 2019; Liu et al. 2019)."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from pipelines.core.errors import InputError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.section import Section
from pipelines.text import backend

NAME = "bpe"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


class Params(Section):
    """Nothing to choose."""


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    """Learn merges and write tokenizer.json. The 256 bytes come first, sorted, so that every run breaks ties alike."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    if size < len(SPECIAL) + len(letters):
        raise InputError(f"build_vocab: size {size} is less than the {len(letters)} bytes that {NAME} begins with")
    learner = Backend(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learner.train_from_iterator(
        texts(), trainers.BpeTrainer(vocab_size=size, special_tokens=[*SPECIAL, *letters], show_progress=False)
    )
    with tempfile.TemporaryDirectory() as aside:  # only the model is kept: the bytes must not be special tokens
        tokenizer = Backend(models.BPE.from_file(*learner.model.save(aside)))
    tokenizer.pre_tokenizer = learner.pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    parts = dict(zip(("cls", "pad", "sep", "unk", "mask"), SPECIAL, strict=True))
    backend.write(tokenizer, folder, "RobertaTokenizer", parts, {"add_prefix_space": False})


def load(folder: OpenedFolder) -> backend.BackendTokenizer:
    """The tokenizer of a folder of ours, or of any RoBERTa folder with a tokenizer.json."""
    return backend.read(NAME, folder)
