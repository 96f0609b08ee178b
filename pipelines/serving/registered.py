"""The code that MLflow runs to open a registered model; it predicts with the project's one predictor."""

from pipelines.inference.predictor import Predictor
from pipelines.tracking import pyfunc

pyfunc.set_model(Predictor.load, labels=lambda predictor: predictor.task.labels)
