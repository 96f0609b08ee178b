"""The schemas of the HTTP service's requests and answers."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from pipelines.serving.limits import MAX_CHARACTERS, MAX_CHOICES, MAX_ROWS

Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]


class Row(BaseModel):
    """One row to predict; GET /model lists the columns that the model reads."""

    model_config = ConfigDict(extra="forbid")

    text: Text | None = Field(None, examples=["新型スマートフォンの予約開始、五色展開で登場"])
    text_pair: Text | None = None  # kinds pair and regression
    question: Text | None = None  # kind span
    context: Text | None = None
    choices: Annotated[list[Text], Field(max_length=MAX_CHOICES)] | None = None  # kind choice


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rows: list[Row] = Field(min_length=1, max_length=MAX_ROWS)
    scores: StrictBool = False  # answer with every label's probability


class Entity(BaseModel):
    """Characters [start, end) of the text."""

    start: int
    end: int
    label: str


class Guess(BaseModel):
    """A piece of the vocabulary for one [MASK]."""

    piece: str
    id: int
    score: float  # its probability


class Receipt(BaseModel):
    """The proof, for who has the key, that a version answered a row with this answer; see `bertline verify`."""

    key: str
    kind: str
    model: str
    version: int
    model_digest: str
    commit: str
    input: str  # sha256 of the row's inputs
    answer: str  # sha256 of the answer
    hmac: str  # HMAC-SHA256 of all the others


class Prediction(BaseModel):
    """The prediction for one row; it has only the fields of the model's kind of rows."""

    label: str | None = None
    score: float | None = None  # the probability of the prediction
    scores: dict[str, float] | None = None
    value: float | None = None  # kind regression
    answer: str | None = None  # kind span; empty if there is no answer
    start: int | None = None  # the answer's first character in the context
    best: str | None = None
    no_answer: float | None = None
    entities: list[Entity] | None = None  # kind tagging
    entity_scores: list[float] | None = None  # the probability of each entity, in the same order
    vector: list[float] | None = None  # kind embedding
    tokens: int | None = None  # the number of tokens that were read
    guesses: list[list[Guess]] | None = None  # kind fill_mask: a list for each [MASK]
    receipt: Receipt | None = None  # of a service that was started with --receipts


class Answer(BaseModel):
    model: str
    version: int
    predictions: list[Prediction]
    truncated: list[int] | None = None  # the numbers of rows, from 0, that were longer than the model reads


class Problem(BaseModel):
    """The reason why a request failed."""

    detail: str


# Ray Serve, in front of the service, sends some errors as plain text
TEXT: dict[str, Any] = {"content": {"text/plain": {"schema": {"type": "string"}}}}
JSON_OR_TEXT: dict[str, Any] = {
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}, **TEXT["content"]}
}


class Health(BaseModel):
    status: str


class Refused(BaseModel):
    """A version that gets no request, though it has the alias of the model or was its canary."""

    version: int
    reason: str


class LiveShare(BaseModel):
    """The share of rows that two versions answer otherwise: as replayed before promotion, and of live requests."""

    against: int  # the version that the replay compared with
    replayed_share: float
    replayed_interval: list[float]  # 95%
    rows: int  # live rows that both have answered
    changed: int
    share: float | None = None
    interval: list[float] | None = None
    # `more` or `fewer` change than the replay said, if the intervals are apart; else `as replayed`
    verdict: str
    sentence: str


class Canary(BaseModel):
    """A version that answers a share of the requests."""

    version: int
    share: float
    by: str
    requests: int
    failures: int  # the other version answered instead
    replay: LiveShare | None = None


class Shadow(BaseModel):
    """A version that reads a share of the requests; its answers are only compared."""

    version: int
    share: float
    rows: dict[str, int]  # by agreed, differed, failed, skipped
    replay: LiveShare | None = None


class Cascade(BaseModel):
    """A student that answers the rows of which it is sure, below a champion that answers the others."""

    champion: int  # the version
    agreement: float  # the least share of rows that get the champion's label
    compared: int  # rows of requests that both answered
    differing: int  # of these, rows that the cascade answered otherwise


class Model(BaseModel):
    name: str  # in this service
    source: str  # NAME@ALIAS or NAME@NUMBER; empty for a folder that is not registered
    model: str  # the registered name
    version: int
    kind: str
    inputs: list[str]  # the columns of a row
    labels: list[str]
    max_length: int  # in tokens; longer texts are cut
    # the largest difference of a row's logits alone and beside other rows; 0: its bits are the same in any company
    row_difference: float
    digest: str  # sha256 of the files that answer; empty for a folder that is not registered
    refused: Refused | None = None
    canary: Canary | None = None
    ended_canary: Refused | None = None  # the last canary, if it ended by itself
    shadow: Shadow | None = None
    cascade: Cascade | None = None
