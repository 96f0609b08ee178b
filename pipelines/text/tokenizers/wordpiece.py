"""wordpiece: BERT's tokenizer, cased or uncased (Devlin et al. 2018)."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, normalizers, pre_tokenizers, processors

from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.section import Section
from pipelines.text import vocab
from pipelines.text.backend import FILE, BackendTokenizer

NAME = "wordpiece"


class Params(Section):
    lowercase: bool = True  # also strips accents, as BERT's uncased models do


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    """Learn a vocabulary and write the tokenizer's files into `folder`."""
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": params.lowercase}
    learned = vocab.learn(_backend({token: i for i, token in enumerate(vocab.SPECIAL)}, config), texts, size)
    names = {
        f"{part}_token": token for part, token in zip(("pad", "unk", "cls", "sep", "mask"), vocab.SPECIAL, strict=True)
    }
    vocab.write(folder, learned, {**config, **names})
    whole(folder).save(str(folder / FILE))


def whole(folder: Path) -> Backend:
    """The pipeline with special tokens, for AutoTokenizer, which does not read vocab.txt for every family."""
    pieces = vocab.read(folder)
    backend = _backend(pieces, OpenedFolder(folder).tokenizer_config)
    backend.add_special_tokens(list(vocab.SPECIAL))
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.BertProcessing(("[SEP]", pieces["[SEP]"]), ("[CLS]", pieces["[CLS]"]))
    return backend


def load(folder: OpenedFolder) -> BackendTokenizer:
    """A tokenizer that splits at white space and punctuation, and splits each word by the longest match first."""
    config, pieces = folder.tokenizer_config, vocab.read(folder.path)
    lowercase = str(_lowercase(config)).lower()
    return BackendTokenizer(NAME, _backend(pieces, config), vocab.specials(pieces), lowercase=lowercase)


def _lowercase(config: Mapping[str, Any]) -> bool:
    return bool(config.get("do_lower_case", True))


def _backend(pieces: dict[str, int], config: Mapping[str, Any]) -> Backend:
    """The pipeline of a tokenizer_config.json; strip_accents of null strips them where it lowercases."""
    backend = Backend(vocab.wordpiece(pieces))
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=_lowercase(config),
        strip_accents=config.get("strip_accents"),
        handle_chinese_chars=config.get("tokenize_chinese_chars") is not False,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend
