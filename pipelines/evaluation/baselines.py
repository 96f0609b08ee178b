"""The baseline of each kind of rows, without a neural network; a model must beat it to be worth its cost."""

import re
from collections import Counter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task
from pipelines.entries.baseline import Baseline as Params
from pipelines.evaluation import predictions
from pipelines.evaluation.predictions import Rows


class Baseline(Protocol):
    """The interface of baselines: fit on one split, predict another. `parameters` is the number of learned numbers."""

    parameters: int

    def fit(self, rows: pa.Table) -> "Baseline": ...

    def predict(self, rows: Rows) -> pa.Table: ...


def for_task(task: Task, params: Params) -> Baseline:
    """The baseline of a task: CommonSpan, UsualTag, Cosine (a number or a choice) or LinearSvm (labels)."""
    kinds: dict[str, Any] = {"span": CommonSpan, "tagging": UsualTag, "choice": Cosine, "regression": Cosine}
    return kinds.get(task.kind, LinearSvm)(task, params)


class LinearSvm:
    """A one-vs-rest linear SVM on sublinear TF-IDF of character n-grams (Joachims 1998; Fan et al. 2008)."""

    def __init__(self, task: Task, params: Params) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.svm import LinearSVC

        self.task, self._only = task, -1
        self._vectorizer = TfidfVectorizer(analyzer="char", ngram_range=params.ngrams, sublinear_tf=True)
        self._svm = LinearSVC(C=params.c, random_state=params.seed)

    def fit(self, rows: pa.Table) -> "LinearSvm":
        names = {label: i for i, label in enumerate(self.task.labels)}
        labels = [names[label] for label in rows.column("label").to_pylist()]
        if len({*labels}) == 1:  # nothing to separate
            self._only = labels[0]
        else:
            self._svm.fit(self._vectorizer.fit_transform(self._texts(rows)), labels)
        return self

    def predict(self, rows: Rows) -> pa.Table:
        """Predictions; a score is the softmax of the SVM's margins, which orders rows but is not a probability."""
        every = np.full((rows.num_rows, len(self.task.labels)), -1e9)
        if self._only >= 0:
            every[:, self._only] = 0.0
        else:
            margins = self._svm.decision_function(self._vectorizer.transform(self._texts(rows)))
            # two classes have one margin
            every[:, self._svm.classes_] = margins if margins.ndim > 1 else np.stack([-margins, margins], axis=1)
        return predictions.table(predictions.softmax(every), self.task).add_column(0, "id", rows.column("id"))

    @property
    def parameters(self) -> int:  # type: ignore[override]
        return 1 if self._only >= 0 else int(self._svm.coef_.size + self._svm.intercept_.size)

    def _texts(self, rows: Rows) -> list[str]:
        parts = [rows.column(name).to_pylist() for name in INPUTS[self.task.kind]]
        return ["\t".join(row) for row in zip(*parts, strict=True)]


class Cosine:
    """The cosine of two texts' TF-IDF: mapped to a number by a fitted line, or used to take the nearest choice.

    The number of a text alone is that of a ridge regression on its TF-IDF (Hoerl and Kennard 1970).
    """

    def __init__(self, task: Task, params: Params) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import Ridge

        self.task, self._line = task, np.array([1.0, 0.0])
        self._ridge, self._is_alone = Ridge(), False
        self._vectorizer = TfidfVectorizer(analyzer="char", ngram_range=params.ngrams, sublinear_tf=True)

    def fit(self, rows: pa.Table) -> "Cosine":
        first, second = self._texts(rows)
        self._vectorizer.fit([*first, *second])
        self.parameters = len(self._vectorizer.vocabulary_)
        if self.task.kind == "regression":
            labels, cosines = rows.column("label").to_numpy(), self._cosines(first, second)
            self._is_alone = not any(second)
            if self._is_alone:
                self._ridge.fit(self._vectorizer.transform(first), labels)
            elif np.ptp(cosines) > 0:
                self._line = np.polyfit(cosines, labels, 1)
            else:  # no line goes through equal cosines
                self._line = np.array([0.0, labels.mean()])
        return self

    def predict(self, rows: Rows) -> pa.Table:
        """Predictions; the score of a choice is the softmax of the cosines, which is not a probability."""
        first, second = self._texts(rows)
        cosines = self._cosines(first, second)
        if self.task.kind == "choice":
            table = predictions.table(
                predictions.softmax(cosines.reshape(rows.num_rows, -1).astype(np.float32)), self.task
            )
        else:
            values = np.polyval(self._line, cosines)
            if self._is_alone:
                values = self._ridge.predict(self._vectorizer.transform(first))
            table = pa.table({"value": pa.array(values, pa.float32())})
        return table.add_column(0, "id", rows.column("id"))

    def _texts(self, rows: Rows) -> tuple[list[str], list[str]]:
        first, second = (rows.column(name).to_pylist() for name in INPUTS[self.task.kind])
        if self.task.kind != "choice":
            return first, second
        return [t for t, options in zip(first, second, strict=True) for _ in options], [c for o in second for c in o]

    def _cosines(self, first: list[str], second: list[str]) -> np.ndarray:
        a, b = self._vectorizer.transform(first), self._vectorizer.transform(second)
        return np.asarray(a.multiply(b).sum(axis=1)).reshape(-1)


class CommonSpan:
    """Answers with the text after the longest run of characters that question and context share.

    The answer ends at the end of the sentence, or after the mean length of the training answers.
    """

    def __init__(self, task: Task, params: Params) -> None:
        self.task, self.parameters = task, 1

    def fit(self, rows: pa.Table) -> "CommonSpan":
        texts = [answer["text"] for row in rows.column("answers").to_pylist() for answer in row]
        # no question has an answer: the shortest one is the nearest to none
        self._length = max(1, round(float(np.mean([len(text) for text in texts] or [1]))))
        return self

    def predict(self, rows: Rows) -> pa.Table:
        pairs = zip(rows.column("question").to_pylist(), rows.column("context").to_pylist(), strict=True)
        spans = [self._answer(question, context) for question, context in pairs]
        answers = [
            {"id": i, "answer": text, "start": start, "score": 1.0, "best": text, "no_answer": 0.0}
            for i, (start, text) in zip(rows.column("id").to_pylist(), spans, strict=True)
        ]
        return pa.Table.from_pylist(answers, schema=schema.PREDICTIONS["span"])

    def _answer(self, question: str, context: str) -> tuple[int, str]:
        from difflib import SequenceMatcher

        run = SequenceMatcher(None, question, context, autojunk=False).find_longest_match()
        start = run.b + run.size
        text = re.split(r"[。.!?]", context[start : start + self._length])[0]
        return start, text.strip()


class UsualTag:
    """Predict as entities the strings that were entities in more than half of their places in the training texts."""

    def __init__(self, task: Task, params: Params) -> None:
        self.task = task

    def fit(self, rows: pa.Table) -> "UsualTag":
        texts, entities = rows.column("text").to_pylist(), rows.column("entities").to_pylist()
        labels_of: dict[str, Counter[str]] = {}
        for text, named in zip(texts, entities, strict=True):
            for entity in named:
                labels_of.setdefault(text[entity["start"] : entity["end"]], Counter())[entity["label"]] += 1
        whole = "\n".join(texts)
        usual = {name: labels.most_common(1)[0] for name, labels in labels_of.items()}
        self._names = {name: label for name, (label, count) in usual.items() if count * 2 > self._places(name, whole)}
        self.parameters = len(self._names)
        longest_first = sorted(self._names, key=lambda name: (-len(name), name))
        first, last = (r"(?<!\w)", r"(?!\w)") if self.task.units == "words" else ("", "")
        self._pattern = re.compile(first + "(?:" + "|".join(map(re.escape, longest_first)) + ")" + last)
        return self

    def _places(self, name: str, text: str) -> int:
        """The number of places of a name in a text; of a name of words, none is inside a longer word."""
        if self.task.units != "words":
            return text.count(name)
        spans = (match.span() for match in re.finditer(re.escape(name), text))
        return sum(not re.search(r"\w", text[max(0, start - 1) : start] + text[end : end + 1]) for start, end in spans)

    def predict(self, rows: Rows) -> pa.Table:
        """Predictions; entities have no scores, as nothing here is a probability."""
        answers = [
            {"id": i, "entities": self._entities(text), "score": 1.0}
            for i, text in zip(rows.column("id").to_pylist(), rows.column("text").to_pylist(), strict=True)
        ]
        return pa.Table.from_pylist(answers, schema=schema.PREDICTIONS["tagging"])

    def _entities(self, text: str) -> list[dict[str, Any]]:
        matches = self._pattern.finditer(text) if self._names else []
        return [{"start": m.start(), "end": m.end(), "label": self._names[m.group()]} for m in matches]
