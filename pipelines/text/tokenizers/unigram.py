"""unigram: SentencePiece's unigram language model (Kudo 2018), as in ALBERT and XLNet."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from pipelines.core.errors import InputError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.section import Section
from pipelines.text import backend

NAME = "unigram"
SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


class Params(Section):
    lowercase: bool = True


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    """Learn at most `size` pieces with their probabilities and write tokenizer.json.

    SentencePiece learns them, because `tokenizers` learns different pieces from the same text in every run.
    """
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    normalizer = normalizers.Sequence([*steps, *([normalizers.Lowercase()] if params.lowercase else [])])
    lines = (line for text in texts() for line in normalizer.normalize_str(text).splitlines())
    tokenizer = Backend(models.Unigram(_learn(lines, size), SPECIAL.index("<unk>")))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    parts = dict(zip(("pad", "unk", "cls", "sep", "mask"), SPECIAL, strict=True))
    backend.write(tokenizer, folder, "PreTrainedTokenizerFast", parts, {"bertline_tokenizer": NAME})


def load(folder: OpenedFolder) -> backend.BackendTokenizer:
    """The tokenizer of a folder of ours, or of an ALBERT or XLNet folder with a tokenizer.json."""
    return backend.read(NAME, folder)


def _learn(lines: Iterator[str], size: int) -> list[tuple[str, float]]:
    """Pieces and their log-probabilities, the special tokens first."""
    import sentencepiece

    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=lines,
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            hard_vocab_limit=False,  # a small text may have fewer pieces
            normalization_rule_name="identity",
            max_sentence_length=1 << 20,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIAL[2:]),
            minloglevel=2,
        )
    except RuntimeError as error:
        raise InputError(f"build_vocab: no vocabulary of {size} pieces from this text ({error})") from None
    learned = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [(learned.id_to_piece(i), learned.get_score(i)) for i in range(learned.get_piece_size())]
