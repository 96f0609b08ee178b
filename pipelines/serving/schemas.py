"""What the HTTP service takes and answers."""

from pydantic import BaseModel, ConfigDict, Field

MAX_ROWS = 256  # in one request
MAX_CHARACTERS = 20_000  # in one text


class Row(BaseModel):
    """One row to predict; `text_pair` where the model's task has pairs."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MAX_CHARACTERS, examples=["新型スマートフォンの予約開始、五色展開で登場"])
    text_pair: str | None = Field(None, max_length=MAX_CHARACTERS)


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rows: list[Row] = Field(min_length=1, max_length=MAX_ROWS)
    scores: bool = False  # answer with every label's probability


class Prediction(BaseModel):
    label: str
    score: float  # probability of `label`
    scores: dict[str, float] | None = None


class Answer(BaseModel):
    model: str
    version: int
    predictions: list[Prediction]


class Model(BaseModel):
    model: str
    version: int
    kind: str
    labels: list[str]
    max_length: int  # tokens; longer texts are cut
