"""Exact match and F1 of answers, as the official SQuAD scripts have them (Rajpurkar et al. 2016, 2018).

For Japanese the tokens are characters and there are no articles, as JaQuAD and JGLUE count (So et al. 2022; Kurihara
et al. 2022): texts are compared after NFKC, without punctuation and white space.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

NAMES = ("exact", "f1")


def normalized(text: str, language: str = "en") -> list[str]:
    """The tokens that two answers are compared by."""
    if language == "ja":
        plain = unicodedata.normalize("NFKC", text).lower()
        return [letter for letter in plain if unicodedata.category(letter)[0] not in "PZC"]
    plain = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def exact(predicted: str, gold: str, language: str = "en") -> float:
    return float(normalized(predicted, language) == normalized(gold, language))


def f1(predicted: str, gold: str, language: str = "en") -> float:
    """2PR / (P + R) over the tokens that both have; where one has none, 1 if neither has any."""
    said, meant = normalized(predicted, language), normalized(gold, language)
    if not said or not meant:
        return float(said == meant)
    common = sum((Counter(said) & Counter(meant)).values())
    return 2 * common / (len(said) + len(meant))


def best_of(predicted: str, answers: Iterable[str], language: str = "en") -> tuple[float, float]:
    """The best exact match and the best F1 over all gold answers; a question without any is answered by saying nothing.

    Gold answers of which the normal form is empty do not count, as the official 2.0 script has it.
    """
    gold = [answer for answer in answers if normalized(answer, language)] or [""]
    return max(exact(predicted, a, language) for a in gold), max(f1(predicted, a, language) for a in gold)


def table(predicted: Iterable[str], gold: Iterable[Sequence[str]], language: str = "en") -> np.ndarray:
    """Of each question NAMES, (N, 2)."""
    return np.array([best_of(p, g, language) for p, g in zip(predicted, gold, strict=True)])


def scores(predicted: Iterable[str], gold: Iterable[Sequence[str]], language: str = "en") -> dict[str, float]:
    """Means over all questions; and over those with and without an answer, where there are both."""
    each = np.array([(*best_of(p, g, language), bool(g)) for p, g in zip(predicted, gold, strict=True)])  # (N, 3)
    found = dict(zip(NAMES, map(float, each[:, :2].mean(axis=0)), strict=True))
    answered = each[:, 2].astype(bool)
    if not answered.all() and answered.any():
        for name, chosen in (("answered", answered), ("unanswerable", ~answered)):
            found[f"{name}_exact"] = float(each[chosen, 0].mean())
            found[f"{name}_f1"] = float(each[chosen, 1].mean())
    return found


def best_threshold(
    best: Iterable[str], no_answer: Sequence[float] | np.ndarray, gold: Iterable[Sequence[str]], language: str = "en"
) -> dict[str, float]:
    """The best F1 that a threshold on `no_answer` could have, and that threshold (the 2.0 script's find_best_thresh).

    A question is answered by its `best` span where its `no_answer` does not exceed the threshold.
    """
    both = [(best_of(b, g, language)[1], best_of("", g, language)[1]) for b, g in zip(best, gold, strict=True)]
    gains, nothing = np.array(both).T
    order = np.argsort(no_answer, kind="stable")
    gaps = np.asarray(no_answer, np.float64)[order]
    totals = nothing.sum() + np.concatenate([[0.0], np.cumsum((gains - nothing)[order])])
    totals[1:-1][gaps[1:] == gaps[:-1]] = -1  # no threshold parts equals
    at = int(totals.argmax())
    return {"best_f1": float(totals[at] / len(gains)), "best_f1_threshold": float(gaps[at - 1] if at else gaps[0] - 1)}
