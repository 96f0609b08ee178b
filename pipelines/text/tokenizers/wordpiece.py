"""wordpiece: BERT's tokenizer, cased or uncased (Devlin et al. 2018)."""

from collections.abc import Callable, Iterator
from pathlib import Path

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
    learned = vocab.learn(_backend({token: i for i, token in enumerate(vocab.SPECIAL)}, params.lowercase), texts, size)
    names = {
        f"{part}_token": token for part, token in zip(("pad", "unk", "cls", "sep", "mask"), vocab.SPECIAL, strict=True)
    }
    vocab.write(folder, learned, {"tokenizer_class": "BertTokenizer", "do_lower_case": params.lowercase, **names})
    whole(folder).save(str(folder / FILE))


def whole(folder: Path) -> Backend:
    """The pipeline with special tokens, for AutoTokenizer, which does not read vocab.txt for every family."""
    pieces = vocab.read(folder)
    backend = _backend(pieces, _lowercase(OpenedFolder(folder)))
    backend.add_special_tokens(list(vocab.SPECIAL))
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.BertProcessing(("[SEP]", pieces["[SEP]"]), ("[CLS]", pieces["[CLS]"]))
    return backend


def load(folder: OpenedFolder) -> BackendTokenizer:
    """A tokenizer that splits at white space and punctuation, and splits each word by the longest match first."""
    lowercase, pieces = _lowercase(folder), vocab.read(folder.path)
    return BackendTokenizer(NAME, _backend(pieces, lowercase), vocab.specials(pieces), lowercase=str(lowercase).lower())


def _lowercase(folder: OpenedFolder) -> bool:
    return bool(folder.tokenizer_config.get("do_lower_case", True))


def _backend(pieces: dict[str, int], lowercase: bool) -> Backend:
    backend = Backend(vocab.wordpiece(pieces))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend
