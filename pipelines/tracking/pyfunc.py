"""A predictor as an MLflow pyfunc: models from code, safetensors inside, nothing pickled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import mlflow
import pandas as pd
import pyarrow as pa
from mlflow.models import ModelSignature
from mlflow.pyfunc import PythonModel, PythonModelContext
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema

FOLDER = "model"  # the artifact that holds the model folder


class Predicts(Protocol):
    def predict(self, rows: pa.Table) -> pa.Table: ...


def set_model(load: Callable[[Path], Predicts], labels: Callable[[Any], tuple[str, ...]]) -> None:
    """Called by the code that MLflow runs to open a registered model: `load` opens its folder."""

    class Model(PythonModel):
        def load_context(self, context: PythonModelContext) -> None:
            self.predictor = load(Path(context.artifacts[FOLDER]))

        def predict(
            self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
        ) -> pd.DataFrame:
            """Columns label and score; with params {"scores": true} a column of each label's probability too."""
            rows = pa.Table.from_pandas(pd.DataFrame(model_input), preserve_index=False)
            answers = self.predictor.predict(rows)
            plain = {name: answers.column(name).to_pylist() for name in ("label", "score")}
            if params and params.get("scores"):
                plain |= dict(
                    zip(labels(self.predictor), zip(*answers.column("scores").to_pylist(), strict=True), strict=True)
                )
            return pd.DataFrame(plain)

    mlflow.models.set_model(Model())


def signature(inputs: list[str]) -> ModelSignature:
    """Text columns in, label and score out."""
    return ModelSignature(
        inputs=Schema([ColSpec(DataType.string, name) for name in inputs]),
        outputs=Schema([ColSpec(DataType.string, "label"), ColSpec(DataType.double, "score")]),
        params=ParamSchema([ParamSpec("scores", DataType.boolean, False)]),
    )
