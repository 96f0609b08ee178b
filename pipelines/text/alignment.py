"""Align a normalized text with the original: the original characters of each normalized character."""

import unicodedata

import numpy as np


def nfkc(text: str) -> tuple[str, np.ndarray, np.ndarray]:
    """NFKC of `text`, and for each of its characters the start and the end of its source in `text`.

    A cluster is a group of characters that normalize together: a letter with its marks, half-width kana with its
    voicing sign, or a single character that becomes several. The source of each character of the normal form is the
    whole cluster.
    """
    normal = unicodedata.normalize("NFKC", text)
    if normal == text:
        places = np.arange(len(text), dtype=np.int64)
        return normal, places, places + 1
    clusters = _clusters(text)
    forms = [unicodedata.normalize("NFKC", cluster) for cluster in clusters]
    if "".join(forms) != normal:  # no known text has this; then the whole text is one cluster
        clusters, forms = [text], [normal]
    sizes = np.array([len(cluster) for cluster in clusters], np.int64)
    ends = np.cumsum(sizes)
    repeats = [len(form) for form in forms]
    return normal, np.repeat(ends - sizes, repeats), np.repeat(ends, repeats)


def _clusters(text: str) -> list[str]:
    """Pieces of `text` that do not change each other when normalized."""
    clusters: list[str] = []
    last: list[str] = []  # the characters of the cluster that is not complete yet
    form = ""  # its normal form; "" if not known
    for letter in text:
        letter_form = unicodedata.normalize("NFKC", letter)
        if last:
            joins = unicodedata.combining(letter) or unicodedata.combining(letter_form[0])
            if not joins:
                form = form or unicodedata.normalize("NFKC", "".join(last))
                joins = unicodedata.normalize("NFKC", form + letter_form) != form + letter_form
            if joins:
                last.append(letter)
                form = ""
                continue
            clusters.append("".join(last))
        last, form = [letter], letter_form
    return [*clusters, "".join(last)] if last else clusters
