"""A predictor as an MLflow pyfunc: a model from code, with weights in safetensors; nothing is pickled."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import mlflow
import numpy as np
import pandas as pd
import pyarrow as pa
from mlflow.models import ModelSignature
from mlflow.pyfunc import PythonModel, PythonModelContext
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
from mlflow.types.schema import Array, Object, Property

from pipelines.core import schema
from pipelines.core.errors import InputError, choices
from pipelines.tracking.registered_version import FOLDERS


class Predicts(Protocol):
    def predict(self, rows: pa.Table) -> pa.Table: ...


def set_model(load: Callable[[Path], Predicts], labels: Callable[[Any], tuple[str, ...]]) -> None:
    """Define the pyfunc; the code that MLflow runs to open a registered model calls this. `load` opens its folder."""

    class Model(PythonModel):
        def load_context(self, context: PythonModelContext) -> None:
            _forget_unused_code()
            self.predictor = load(_folder(context.artifacts, context.model_config or {}))

        def predict(
            self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
        ) -> pd.DataFrame:
            """Predictions as columns; params {"scores": true} adds a column with the probability of each label."""
            rows = pa.Table.from_pandas(_unpacked(pd.DataFrame(model_input)), preserve_index=False)
            answers = self.predictor.predict(rows)
            plain = {name: answers.column(name).to_pylist() for name in answers.column_names if name != "scores"}
            if params and params.get("scores") and "scores" in answers.column_names:
                columns = zip(*answers.column("scores").to_pylist(), strict=True)
                plain |= dict(zip(schema.score_columns(labels(self.predictor)), columns, strict=True))
            return pd.DataFrame(plain)

    mlflow.models.set_model(Model())


def _unpacked(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of `frame`; from a dict of columns MLflow makes one row, in which each cell is a column."""
    if len(frame) == 1 and all(isinstance(cell, list | np.ndarray) for cell in frame.iloc[0]):
        return pd.DataFrame(frame.iloc[0].to_dict())
    return frame


def _forget_unused_code() -> None:
    """Take the version's code from sys.path where this process had imported the project from elsewhere.

    MLflow puts it first. A process that is spawned here takes over sys.path, and would import a part of the project.
    """
    used = Path(__file__).parents[2]
    unused = Path(sys.path[0])
    if unused.resolve() != used.resolve() and (unused / "pipelines").is_dir():
        sys.path.pop(0)


def _folder(artifacts: dict[str, str], config: dict[str, Any]) -> Path:
    """The folder for config["runtime"]: by default the registered runtime; load_model can pass another."""
    runtime = config.get("runtime")
    if runtime and FOLDERS.get(runtime) not in artifacts:
        raise InputError(choices("runtime", runtime, [key for key in FOLDERS if FOLDERS[key] in artifacts]))
    names = [FOLDERS[runtime]] if runtime else FOLDERS.values()
    return Path(next(artifacts[name] for name in names if name in artifacts))


def signature(kind: str) -> ModelSignature:
    """The MLflow signature for rows of `kind`: the input columns, and the columns of predictions."""
    inputs, outputs = schema.ROWS[kind], schema.PREDICTIONS[kind]
    return ModelSignature(
        inputs=Schema([ColSpec(_type(inputs.field(name).type), name) for name in schema.INPUTS[kind]]),
        outputs=Schema(
            [ColSpec(_type(field.type), field.name) for field in outputs if field.name not in ("id", "scores")]
        ),
        params=ParamSchema([ParamSpec("scores", DataType.boolean, False)]),
    )


def _type(arrow: pa.DataType) -> DataType | Array | Object:
    """The MLflow type for an Arrow type."""
    if pa.types.is_list(arrow):
        return Array(_type(arrow.value_type))
    if pa.types.is_struct(arrow):
        return Object([Property(field.name, _type(field.type)) for field in arrow])
    if pa.types.is_integer(arrow):
        return DataType.long
    return DataType.double if pa.types.is_floating(arrow) else DataType.string
