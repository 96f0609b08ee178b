"""The requests and the answers of the HTTP service."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

MAX_ROWS = 256  # in one request
MAX_CHARACTERS = 20_000  # in one text
MAX_IN_ALL = 200_000  # characters in all texts of a request: minutes of work would hold up all others
MAX_CHOICES = 64  # of a row


Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]


class Row(BaseModel):
    """One row to predict: the columns that the model's kind of rows has, which GET /model names."""

    model_config = ConfigDict(extra="forbid")

    text: Text | None = Field(None, examples=["新型スマートフォンの予約開始、五色展開で登場"])
    text_pair: Text | None = None  # kinds pair and regression
    question: Text | None = None  # kind span
    context: Text | None = None
    choices: Annotated[list[Text], Field(max_length=MAX_CHOICES)] | None = None  # kind choice

    def characters(self) -> int:
        """In all its texts."""
        texts = (self.text, self.text_pair, self.question, self.context, *(self.choices or ()))
        return sum(len(text) for text in texts if text)


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rows: list[Row] = Field(min_length=1, max_length=MAX_ROWS)
    scores: bool = False  # answer with every label's probability

    @model_validator(mode="after")
    def _bounded(self) -> "Request":
        count = sum(row.characters() for row in self.rows)
        if count > MAX_IN_ALL:
            raise PydanticCustomError(
                "too_long",
                "{count} characters in all rows; a request takes at most {most}, and `bertline score` takes any file",
                {"count": count, "most": MAX_IN_ALL},
            )
        return self


class Entity(BaseModel):
    """Characters [start, end) of the text."""

    start: int
    end: int
    label: str


class Prediction(BaseModel):
    """The fields that the model's kind of rows asks for; the rest is left out."""

    label: str | None = None
    score: float | None = None  # probability of what is said
    scores: dict[str, float] | None = None
    value: float | None = None  # kind regression
    answer: str | None = None  # kind span; empty where there is none
    start: int | None = None  # character of the context
    best: str | None = None
    no_answer: float | None = None
    entities: list[Entity] | None = None  # kind tagging


class Answer(BaseModel):
    model: str
    version: int
    predictions: list[Prediction]


class Problem(BaseModel):
    """The reason for which there is no answer."""

    detail: str


# Ray Serve, which stands before the service, says some things as plain text
JSON_OR_TEXT: dict[str, Any] = {
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/Problem"}},
        "text/plain": {"schema": {"type": "string"}},
    }
}


class Model(BaseModel):
    model: str
    version: int
    kind: str
    inputs: list[str]  # what a row holds
    labels: list[str]
    max_length: int  # tokens; longer texts are cut
