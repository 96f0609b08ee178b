"""Exact match and F1 of answers, as in the official SQuAD scripts (Rajpurkar et al. 2016, 2018).

Corpora normalize answers in different ways before they compare them; a task names one of NORMALIZATIONS. In Japanese
the tokens are characters, and there are no articles.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

NAMES = ("exact", "f1")


def _squad(text: str) -> list[str]:
    """Words in lower case, without punctuation and articles (evaluate-v1.1.py, evaluate-v2.0.py)."""
    plain = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def _nfkc(text: str) -> list[str]:
    """Characters after NFKC in lower case, without punctuation and white space; our own, not from a corpus's script."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return [letter for letter in plain if unicodedata.category(letter)[0] not in "PZC"]


def _jglue(text: str) -> list[str]:
    """Characters in lower case, without final full stops and repeated spaces (JGLUE's patch of transformers)."""
    return list(" ".join(text.lower().rstrip("。").split()))


def _jaquad(text: str) -> list[str]:
    """Characters as they are, without white space (JaQuAD.ipynb)."""
    return list("".join(text.split()))


NORMALIZATIONS: dict[str, Callable[[str], list[str]]] = {
    "squad": _squad,
    "nfkc": _nfkc,
    "jglue": _jglue,
    "jaquad": _jaquad,
}
UNORDERED = ("jaquad",)  # the script counts an answer as exact if its F1 is 1


def normalized(text: str, normalization: str = "squad") -> list[str]:
    """The tokens by which answers are compared."""
    return NORMALIZATIONS[normalization](text)


def exact(predicted: str, gold: str, normalization: str = "squad") -> float:
    answer_tokens, gold_tokens = normalized(predicted, normalization), normalized(gold, normalization)
    return float(
        Counter(answer_tokens) == Counter(gold_tokens) if normalization in UNORDERED else answer_tokens == gold_tokens
    )


def f1(predicted: str, gold: str, normalization: str = "squad") -> float:
    """2PR / (P + R) over the common tokens; if one side has no tokens, 1 if neither has any, else 0."""
    predicted_tokens, gold_tokens = normalized(predicted, normalization), normalized(gold, normalization)
    if not predicted_tokens or not gold_tokens:
        return float(predicted_tokens == gold_tokens)
    common = sum((Counter(predicted_tokens) & Counter(gold_tokens)).values())
    return 2 * common / (len(predicted_tokens) + len(gold_tokens))


def best_of(predicted: str, answers: Iterable[str], normalization: str = "squad") -> tuple[float, float]:
    """The best exact match and the best F1 over all gold answers; "" is right for a question without gold answers.

    Gold answers with an empty normal form are ignored, as in the official 2.0 script.
    """
    gold = [answer for answer in answers if normalized(answer, normalization)] or [""]
    return max(exact(predicted, a, normalization) for a in gold), max(f1(predicted, a, normalization) for a in gold)


def table(predicted: Iterable[str], gold: Iterable[Sequence[str]], normalization: str = "squad") -> np.ndarray:
    """The exact match and the F1 of each question, in the order of NAMES: (N, 2)."""
    return np.array([best_of(p, g, normalization) for p, g in zip(predicted, gold, strict=True)])


def scores(predicted: Iterable[str], gold: Iterable[Sequence[str]], normalization: str = "squad") -> dict[str, float]:
    """Means over all questions and, if there are both kinds, over questions with and without an answer."""
    rows = np.array([(*best_of(p, g, normalization), bool(g)) for p, g in zip(predicted, gold, strict=True)])  # (N, 3)
    means = dict(zip(NAMES, map(float, rows[:, :2].mean(axis=0)), strict=True))
    answered = rows[:, 2].astype(bool)
    if not answered.all() and answered.any():
        for name, chosen in (("answered", answered), ("unanswerable", ~answered)):
            means[f"{name}_exact"] = float(rows[chosen, 0].mean())
            means[f"{name}_f1"] = float(rows[chosen, 1].mean())
    return means


def best_threshold(
    best: Iterable[str],
    no_answer: Sequence[float] | np.ndarray,
    gold: Iterable[Sequence[str]],
    normalization: str = "squad",
) -> dict[str, float]:
    """The best F1 of any threshold on `no_answer`, and that threshold (find_best_thresh of the 2.0 script).

    A question is answered by its `best` span if its `no_answer` does not exceed the threshold, and by "" otherwise.
    On a question without an answer, a `best` such as "the", which normalizes to nothing, is right here as in `f1`; the
    script counts it as wrong.
    """
    both = [
        (best_of(b, g, normalization)[1], best_of("", g, normalization)[1]) for b, g in zip(best, gold, strict=True)
    ]
    gains, nothing = np.array(both).T
    order = np.argsort(no_answer, kind="stable")
    gaps = np.asarray(no_answer, np.float64)[order]
    totals = nothing.sum() + np.concatenate([[0.0], np.cumsum((gains - nothing)[order])])
    totals[1:-1][gaps[1:] == gaps[:-1]] = -1  # no threshold separates equal values
    at = int(totals.argmax())
    return {"best_f1": float(totals[at] / len(gains)), "best_f1_threshold": float(gaps[at - 1] if at else gaps[0] - 1)}
