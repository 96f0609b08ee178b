"""The words behind a label, by occlusion: the change of its probability when a word is masked.

Zeiler and Fergus 2014 cover parts of a picture in this way; Li et al. 2016 erase words. Every piece of the word becomes
[MASK], so the text keeps its length, and all other words keep their places. T tokens, W words.
"""

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError, UsageError
from pipelines.evaluation.predictions import softmax

if TYPE_CHECKING:
    from pipelines.inference.predictor import Predictor

# scripts that are written without spaces: Thai, Lao, Burmese, Khmer, Chinese, Japanese
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)


class Word(NamedTuple):
    """A word, its place in the text in characters, and the probability that the label loses without it."""

    text: str
    start: int
    end: int
    change: float


class Explanation(NamedTuple):
    """The label of a text, its probability, and its words in their order."""

    label: str
    score: float
    words: list[Word]

    def most(self, count: int = 5) -> list[Word]:
        """The words with the largest changes, the largest first."""
        return sorted(self.words, key=lambda word: -abs(word.change))[:count]


def explain(predictor: "Predictor", text: Any, label: str = "") -> Explanation:
    """The words of `text` with the change of the label's probability when each is masked, one at a time.

    Words beyond the model's maximum length are not read, and are left out. Raises UsageError for a model of another
    kind than single, or a label that it does not have.

    Args:
        label: the label to explain; by default the likeliest.
    """
    task, tokenizer = predictor.task, predictor.tokenizer
    if task.kind != "single":
        raise UsageError(f"explain is for models of kind single; this one is of kind {task.kind}")
    if not isinstance(text, str):
        raise InputError("explain takes one text")
    text = str(text)  # numpy's texts are no str for a tokenizer
    if label and label not in task.labels:
        raise UsageError(f"no label {label!r}; there are: {', '.join(task.labels)}")
    spans = tokenizer.encode_spans([text])
    ids = spans.ids.values[: predictor.max_length - 2].astype(np.int64)
    starts = [end - len(text[start:end].lstrip()) for start, end in zip(spans.starts, spans.ends, strict=True)]
    words = _words(text, tokenizer.tokens(ids.tolist()), starts, spans.ends.tolist(), tokenizer.marks_spaces)
    probabilities = softmax(np.array(predictor.forward([_masked(ids, words, tokenizer)])[0], np.float32))  # (1 + W, C)
    chosen = task.labels.index(label) if label else int(probabilities[0].argmax())
    whole = float(probabilities[0, chosen])
    listed = []
    for (first, last), without in zip(words, probabilities[1:, chosen].tolist(), strict=True):
        start, end = int(starts[first]), int(spans.ends[last - 1])
        listed.append(Word(text[start:end], start, end, whole - without))
    return Explanation(task.labels[chosen], whole, listed)


def _words(
    text: str, pieces: list[str], starts: list[int], ends: list[int], marks_spaces: bool
) -> list[tuple[int, int]]:
    """The first token of each word, and the one after its last; tokens of white space belong to none.

    Where nothing marks words, as in Japanese for a vocabulary that marks spaces, a word is a token; it is several if
    these are bytes of one character.
    """
    words: list[tuple[int, int]] = []
    end = -1  # of the word before, in characters
    for i, piece in enumerate(pieces):
        if starts[i] >= ends[i]:
            continue
        unmarked = not UNSPACED.search(text[starts[i] - 1 : starts[i] + 1]) if marks_spaces else piece.startswith("##")
        if starts[i] < end or (starts[i] == end and unmarked):
            words[-1] = (words[-1][0], i + 1)
        else:
            words.append((i, i + 1))
        end = max(end, ends[i])
    return words


def _masked(ids: np.ndarray, words: list[tuple[int, int]], tokenizer: Any) -> pa.RecordBatch:
    """The sequence of the text, then one for each word in which that is masked."""
    whole = np.array([tokenizer.cls_id, *ids, tokenizer.sep_id], np.uint32)
    sequences = np.repeat(whole[None], len(words) + 1, axis=0)  # (1 + W, T)
    for row, (first, last) in enumerate(words, start=1):
        sequences[row, 1 + first : 1 + last] = tokenizer.mask_id
    columns = {
        "id": pa.array(map(str, range(len(sequences))), pa.string()),
        "input_ids": pa.array(list(sequences), pa.list_(pa.uint32())),
        "first_length": pa.array([len(whole)] * len(sequences), pa.uint32()),
    }
    return pa.RecordBatch.from_pydict(columns)
