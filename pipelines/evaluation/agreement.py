"""The agreement of two models on the same rows: bounds of a share, and the margin above which a student may answer."""

import math

import numpy as np

# scipy is imported where it is used, as a service needs it once in a while and opens its models without it


def upper_bound(count: int, rows: int, confidence: float) -> float:
    """The one-sided upper bound of a share that was seen in `count` of `rows` independent rows.

    The share is below it at this confidence or a greater one, whatever it is (Clopper and Pearson 1934).
    """
    from scipy.special import betaincinv

    return 1.0 if count >= rows else float(betaincinv(count + 1, rows - count, confidence))


def lower_bound(count: int, rows: int, confidence: float) -> float:
    """The one-sided lower bound of a share, as `upper_bound`."""
    from scipy.special import betaincinv

    return 0.0 if not count else float(betaincinv(count, rows - count + 1, 1 - confidence))


def most_disagreements(rows: int, agreement: float, confidence: float) -> int:
    """The most rows of `rows` on which two models may differ to agree on a share `agreement` of all rows.

    -1 if there are too few rows: then not even none would show it.
    """
    fewest, most = -1, int(rows * (1 - agreement))  # the upper bound of a share is above the share seen
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if upper_bound(middle, rows, confidence) <= 1 - agreement:
            fewest = middle
        else:
            most = middle - 1
    return fewest


def least_rows(agreement: float, confidence: float) -> int:
    """The fewest rows that show an agreement if no answer differs: `agreement ** rows` is 1 - confidence or less."""
    rows = math.ceil(math.log(1 - confidence) / math.log(agreement))
    return rows if upper_bound(0, rows, confidence) <= 1 - agreement else rows + 1  # the logarithms are rounded


def threshold(of_student: np.ndarray, agrees: np.ndarray, most: int) -> float:
    """The least margin above which a student's answers differ from the champion's on at most `most` rows.

    Thresholds are tried from the greatest down, until one lets through more; with fewer rows for the student no more
    answers can differ. So the first threshold with a larger true share than allowed is taken only if its own test errs,
    and the confidence of one test holds for the choice (fixed-sequence testing: Angelopoulos et al. 2021, "Learn then
    Test", section 2.2). The same rows may choose the threshold and show the bound.

    Args:
        of_student: (N,) margins.
        agrees: (N,) whether student and champion give the same answer.

    Returns:
        The threshold; -1.0, which is below every margin, if the student may answer all rows.
    """
    differing = np.sort(of_student[~agrees])[::-1]
    return float(differing[most]) if len(differing) > most else -1.0
