"""The floor: TF-IDF of character n-grams and a linear SVM, which a model must beat to be worth its cost."""

import numpy as np
import pyarrow as pa

from pipelines.core.params import Floor
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task
from pipelines.evaluation import predictions


class LinearSvm:
    """Character n-grams, sublinear TF-IDF, one-against-rest linear SVM (Joachims 1998; Fan et al. 2008)."""

    def __init__(self, task: Task, params: Floor) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.svm import LinearSVC

        self.task = task
        self._vectorizer = TfidfVectorizer(analyzer="char", ngram_range=params.ngrams, sublinear_tf=True)
        self._svm = LinearSVC(C=params.c, random_state=params.seed)

    def fit(self, rows: pa.Table) -> "LinearSvm":
        names = {label: i for i, label in enumerate(self.task.labels)}
        labels = [names[label] for label in rows.column("label").to_pylist()]
        self._svm.fit(self._vectorizer.fit_transform(self._texts(rows)), labels)
        return self

    def predict(self, rows: pa.Table) -> pa.Table:
        """Predictions; a score is the softmax of the SVM's margins, which orders rows but is no probability."""
        margins = self._svm.decision_function(self._vectorizer.transform(self._texts(rows)))
        if margins.ndim == 1:  # two classes have one margin
            margins = np.stack([-margins, margins], axis=1)
        every = np.full((rows.num_rows, len(self.task.labels)), -1e9)
        every[:, self._svm.classes_] = margins
        return predictions.table(predictions.softmax(every), self.task).add_column(0, "id", rows.column("id"))

    @property
    def parameters(self) -> int:
        return int(self._svm.coef_.size + self._svm.intercept_.size)

    def _texts(self, rows: pa.Table) -> list[str]:
        parts = [rows.column(name).to_pylist() for name in INPUTS[self.task.kind]]
        return ["\t".join(row) for row in zip(*parts, strict=True)]
