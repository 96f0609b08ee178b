"""MLflow's scoring protocol: its clients get what a pyfunc of the same model predicts, and each error is a sentence."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mlflow
import pandas as pd
import pyarrow as pa
import pytest
import requests
from mlflow.deployments import get_deploy_client
from mlflow.pyfunc import scoring_server
from mlflow.pyfunc.scoring_server.client import ScoringServerClient

from pipelines.core import schema
from pipelines.inference.predictor import Predictor
from pipelines.serving.problems import Problem
from pipelines.serving.protocols import mlflow_scoring
from pipelines.tracking import pyfunc
from tests.support import compressed, kinds, served, tiny
from tests.support.places import CODE

KINDS = tuple(kinds.TASKS)
JSON, CSV, PARQUET = scoring_server.CONTENT_TYPES[1], scoring_server.CONTENT_TYPES[0], scoring_server.CONTENT_TYPES[2]
SCORES = {"scores": True}
CLASSES = ("single", "pair", "choice")


class Served(NamedTuple):
    address: str
    folders: dict[str, Path]

    def post(self, path: str, body: Any, form: str = JSON, **headers: str) -> tuple[int, Any]:
        """The status and the parsed answer to a body: bytes, text, or an object to send as JSON."""
        data = (
            body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        )
        sent = {"Content-Type": form} | {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.address + path, data, sent)) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def predictions(self, kind: str, body: Any, form: str = JSON) -> list[dict[str, Any]]:
        status, answer = self.post(f"/invocations/{kind}", body, form)
        assert status == 200, answer
        assert list(answer) == ["predictions"]
        return answer["predictions"]

    def refused(self, kind: str, body: Any, form: str = JSON) -> str:
        """The sentence of a request that is refused with MLflow's error for a wrong request."""
        status, answer = self.post(f"/invocations/{kind}", body, form)
        assert (status, answer.get("error_code")) == (400, "BAD_REQUEST"), answer
        assert set(answer) == {"error_code", "message"}
        assert len(answer["message"]) < 250
        return answer["message"]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("models")
    folders = {kind: compressed.teacher("bert", kind, place / kind) for kind in KINDS}
    with served.serving(served.catalogue(folders)) as address:
        yield Served(address, folders)


def frame(kind: str, count: int = 5) -> pd.DataFrame:
    """Rows with quotes, commas, line ends and emoji."""
    rows = kinds.rows(kind, count).select(schema.INPUTS[kind]).to_pylist()
    first = next(name for name in rows[0] if name != "choices")
    rows[1][first] += ' "a", b\n😀'
    return pd.DataFrame(rows)


def sent_as(kind: str, rows: pd.DataFrame) -> dict[str, tuple[str, bytes]]:
    """The same rows in each form: a content type and a body."""
    records = rows.to_dict("records")
    cells = rows.map(lambda cell: json.dumps(cell) if isinstance(cell, list) else cell)
    table = cells.to_csv(index=False)
    excel = cells.to_csv(index=False, lineterminator="\r\n").encode("utf-8-sig")
    forms = {
        "dataframe_split": rows.to_dict("split"),
        "dataframe_records": records,
        "inputs": rows.to_dict("list"),
        "instances": records,
    }
    return {
        **{name: (JSON, json.dumps({name: value}).encode()) for name, value in forms.items()},
        "rows as inputs": (JSON, json.dumps({"inputs": records}).encode()),
        "columns as instances": (
            "application/json; charset=UTF-8",
            json.dumps({"instances": forms["inputs"]}).encode(),
        ),
        "csv": (CSV, table.encode()),
        "csv with an index": (CSV, cells.to_csv().encode()),
        "csv of Excel": ('text/csv; charset="utf-8"', excel),
        "parquet": (PARQUET, rows.to_parquet()),
        "parquet with an index": (PARQUET, rows.set_index(pd.Index(list("abcde"), name="key")).to_parquet()),
        "parquet in pages of version 2": (
            PARQUET,
            rows.to_parquet(compression="zstd", data_page_version="2.0", row_group_size=2),
        ),
        "parquet without a dictionary": (PARQUET, rows.to_parquet(compression="gzip", use_dictionary=False)),
        "parquet with shared prefixes": (
            PARQUET,
            rows.to_parquet(compression=None, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"),
        ),
    }


def check_near(one: Any, other: Any) -> None:
    """Assert that answers are equal; their numbers may differ as those of PyTorch do in another batch."""
    if isinstance(one, dict):
        assert list(one) == list(other)
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list):
        assert len(one) == len(other)
        for its, others in zip(one, other, strict=True):
            check_near(its, others)
    else:
        assert one == (pytest.approx(other, abs=1e-5) if isinstance(other, float) else other)


def saved_pyfunc(folder: Path, kind: str, place: Path) -> Any:
    """The model of a folder, opened by MLflow."""
    options = {"artifacts": {"model": str(folder)}, "signature": pyfunc.signature(kind)}
    mlflow.pyfunc.save_model(place, python_model=str(CODE), pip_requirements=["mlflow"], **options)
    return mlflow.pyfunc.load_model(str(place))


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_gets_what_the_pyfunc_predicts(service: Served, kind: str, tmp_path: Path) -> None:
    rows, model = frame(kind), saved_pyfunc(service.folders[kind], kind, tmp_path / "pyfunc")
    expected = model.predict(rows).to_dict("records")
    assert len(expected) == 5
    if kind != "choice":  # MLflow refuses a column of lists of lists
        check_near(model.predict(rows.to_dict("list")).to_dict("records"), expected)
    forms = sent_as(kind, rows)
    assert len(forms) == 14
    for form, body in forms.values():
        check_near(service.predictions(kind, body, form), expected)
    for number in range(len(rows)):  # alone in its batch, a row has the same bits
        body = json.dumps({"dataframe_split": rows.iloc[[number]].to_dict("split"), "params": SCORES})
        theirs = scoring_server.invocations(body, JSON, model, model.metadata.get_input_schema())
        answers = service.predictions(kind, body)
        assert answers == json.loads(theirs.response)["predictions"]
        assert answers == model.predict(rows.iloc[[number]], params=SCORES).to_dict("records")
        if kind in CLASSES:
            assert set(answers[0]) == {"label", "score", *kinds.TASKS[kind].labels}


@pytest.mark.parametrize("labels", [("label", "score", "other"), ("label", "score_label", "score")])
def test_probabilities_leave_the_prediction_as_it_is(labels: tuple[str, ...], tmp_path: Path) -> None:
    """A label may have the name of a column of predictions."""
    folder = tiny.classifier(tmp_path / "model", labels=labels)
    rows = frame("single")
    model = saved_pyfunc(folder, "single", tmp_path / "pyfunc")
    expected = Predictor.load(folder).predict(pa.Table.from_pandas(rows)).to_pylist()
    body = {"dataframe_split": rows.to_dict("split"), "params": SCORES}
    with served.serving(served.catalogue({"single": folder})) as address:
        answers = Served(address, {}).predictions("single", body)
    check_near(model.predict(rows, params=SCORES).to_dict("records"), answers)
    columns = ["score_label", "score_score", "other"] if "other" in labels else None
    for row, answer in zip(expected, answers, strict=True):
        assert (answer["label"], answer["score"]) == (row["label"], pytest.approx(row["score"], abs=1e-5))
        assert list(answer.values())[2:] == pytest.approx(row["scores"], abs=1e-5)
        assert columns is None or list(answer)[2:] == columns


@pytest.mark.parametrize("kind", KINDS)
def test_the_deployment_client_queries_and_describes_each_model(service: Served, kind: str) -> None:
    rows = frame(kind)
    body = {"dataframe_split": rows.to_dict("split")}
    expected = service.predictions(kind, body)
    client = get_deploy_client(service.address)
    check_near(client.predict(endpoint=kind, inputs=body), {"predictions": expected})
    check_near(client.predict(endpoint=kind, inputs={"inputs": rows.to_dict("list")})["predictions"], expected)
    endpoint = client.get_endpoint(kind)
    assert (endpoint.name, endpoint.endpoint_type, endpoint.model.name) == (kind, kind, f"{kind}/1")
    assert endpoint.endpoint_url == f"{service.address}/endpoints/{kind}/invocations"
    assert [each.name for each in client.list_endpoints()] == list(KINDS)


def test_the_scoring_client_reads_the_first_model(service: Served) -> None:
    host, _, port = service.address.removeprefix("http://").partition(":")
    client = ScoringServerClient(host, port)
    client.wait_server_ready()
    assert client.get_version() == mlflow.__version__
    answer = client.invoke(frame("single"), params=SCORES)
    body = {"dataframe_split": frame("single").to_dict("split"), "params": SCORES}
    check_near(answer["predictions"], service.predictions("single", body))
    assert list(answer.get_predictions().columns) == ["label", "score", *kinds.TASKS["single"].labels]
    check_near(client.invoke(["犬", "映画"])["predictions"], service.predictions("single", {"inputs": ["犬", "映画"]}))


def test_one_row_may_stand_without_lists_and_a_frame_may_be_empty(service: Served) -> None:
    for kind in KINDS:
        row = frame(kind).iloc[0].to_dict()
        check_near(service.predictions(kind, {"inputs": row}), service.predictions(kind, {"instances": [row]}))
        none = frame(kind).iloc[:0]
        assert service.predictions(kind, {"dataframe_split": none.to_dict("split")}) == []
        assert service.predictions(kind, none.to_csv(index=False), CSV) == []
        assert service.predictions(kind, none.to_parquet(), PARQUET) == []
    assert service.predictions("single", {"inputs": []}) == []


def test_text_in_csv_stays_text(service: Served) -> None:
    texts = ["12", "NA", "null", "", " a ", "x\r\ny", "1e5"]
    table = pd.DataFrame({"text": texts}).to_csv(index=False, quoting=1)
    check_near(service.predictions("single", table, CSV), service.predictions("single", {"inputs": texts}))
    assert len(service.predictions("single", "text\n\n犬\n\n", CSV)) == 1


def split(columns: Any, data: Any, **more: Any) -> dict[str, Any]:
    return {"dataframe_split": {"columns": columns, "data": data, **more}}


FORMS = "dataframe_split, dataframe_records, inputs, instances"
REFUSED: list[tuple[str, Any, str]] = [
    ("single", b"{", "the body is not JSON in UTF-8"),
    ("single", b'{"inputs": ["\xff"]}', "the body is not JSON in UTF-8"),
    ("single", b'{"inputs": [NaN]}', "the body is not JSON in UTF-8"),
    ("single", b'{"inputs": ["\\ud800"]}', "the body is not JSON in UTF-8"),
    ("single", b"[" * 5000, "the body is nested too deeply"),
    ("single", ["犬"], f"the body must be an object with one of {FORMS}"),
    ("single", {}, f"the body must have exactly one of {FORMS}; it has 0"),
    ("single", {"inputs": ["犬"], "instances": ["犬"]}, f"the body must have exactly one of {FORMS}; it has 2"),
    ("single", {"inputs": ["犬"], "parms": {}}, "the body: no key 'parms' (did you mean 'params'?); there are: "),
    ("single", {"inputs": ["犬"], "params": [1]}, 'params must be an object, such as {"scores": true}'),
    ("single", {"inputs": ["犬"], "params": {"scores": "yes"}}, "params.scores must be true or false"),
    ("single", {"inputs": ["犬"], "params": {"scores": 1}}, "params.scores must be true or false"),
    ("single", {"inputs": ["犬"], "params": {"score": True}}, "params: no parameter 'score' (did you mean 'scores'?)"),
    ("single", {"inputs": "犬"}, "inputs must be a list of rows"),
    ("single", {"inputs": None}, "inputs must be a list of rows"),
    ("single", {"inputs": [["犬"]]}, "text: row 0 is not text"),
    ("single", {"inputs": ["犬", 1]}, "text: row 1 is not text"),
    ("single", {"inputs": ["犬", None]}, "text: row 1 is not text"),
    ("single", {"inputs": ["犬", {"text": "犬"}]}, "inputs: row 0 must be an object with text"),
    ("single", {"inputs": {"text": ["犬"], "x": ["1"]}}, "no column 'x'; there are: text"),
    ("single", {"inputs": {"text": 1}}, "inputs: the value of each column must be a list"),
    ("single", {"inputs": {"text": {"0": "犬"}}}, "inputs: the value of each column must be a list"),
    ("single", {"inputs": {}}, "the column 'text' is missing; the model reads text"),
    ("pair", {"inputs": ["犬"]}, "inputs: row 0 must be an object with text, text_pair"),
    ("pair", {"inputs": {"text": ["犬"]}}, "the column 'text_pair' is missing; the model reads text, text_pair"),
    ("pair", {"inputs": {"text": ["犬"], "text_pair": []}}, "the columns have different numbers of rows: 0 and 1"),
    ("pair", {"inputs": {"text": "犬", "text_pair": ["犬"]}}, "text_pair: row 0 is not text"),
    ("pair", {"instances": [{"text": "犬"}]}, "instances: row 0 has no 'text_pair'"),
    ("single", {"dataframe_records": []}, "dataframe_records has no rows, so it names no column; the model reads text"),
    ("single", {"dataframe_records": {"text": ["犬"]}}, "dataframe_records must be a list of rows"),
    ("single", {"dataframe_records": [{"text": 1.5}]}, "text: row 0 is not text"),
    ("single", {"dataframe_records": [{"text": "犬", "label": "a"}]}, "no column 'label'; there are: text"),
    ("single", {"dataframe_records": [{"t" * 9000: "犬"}]}, "no column 'tttttttttttt...ttttttttttttt'; there are"),
    ("single", {"dataframe_split": [["犬"]]}, "dataframe_split must be an object with columns, data and, optionally"),
    ("single", {"dataframe_split": {"data": [["犬"]]}}, "dataframe_split must be an object with columns, data and"),
    ("single", split(["text"], [["犬"]], x=1), "dataframe_split must be an object with columns, data and, optionally"),
    ("single", split("text", [["犬"]]), "dataframe_split.columns must be a list of names"),
    ("single", split([["text"]], [["犬"]]), "dataframe_split.columns must be a list of names"),
    ("single", split(["text", "text"], [["犬", "犬"]]), "two columns are named 'text'; rename one of them"),
    ("single", split(["text"], "犬"), "dataframe_split.data must be a list of rows"),
    ("single", split(["text"], [["犬"], []]), "dataframe_split.data: row 1 must be a list of 1 values, one for each"),
    ("single", split(["text"], ["犬"]), "dataframe_split.data: row 0 must be a list of 1 values, one for each column"),
    ("single", split(["text"], [["犬"]], index=[]), "dataframe_split.index must have one entry for each row"),
    ("single", split(["text"], [[True]]), "text: row 0 is not text"),
    ("single", split(["text"], [["犬"]] * 257), "257 rows; a request takes at most 256"),
    ("single", {"inputs": ["犬" * 20_001]}, "text: row 0 has 20001 characters; it may have 20000"),
    ("choice", {"inputs": {"text": ["犬"], "choices": ["a"]}}, "choices: row 0 is not a list of texts"),
    ("choice", split(["text", "choices"], [["犬", ["a", 1, "c"]]]), "choices: row 0 is not text"),
    ("choice", split(["text", "choices"], [["犬", ["a", None, "c"]]]), "choices: row 0 has no text"),
    ("choice", split(["text", "choices"], [["犬", ["a", "b"]]]), "the column 'choices': row 0 has 2 choices; 3 are"),
    ("choice", split(["text", "choices"], [["犬", ["a"] * 65]]), "choices: row 0 has 65 texts; it may have 64"),
]


@pytest.mark.parametrize(("kind", "body", "sentence"), REFUSED)
def test_a_wrong_frame_is_one_sentence(service: Served, kind: str, body: Any, sentence: str) -> None:
    assert service.refused(kind, body).startswith(sentence)


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        ("single", "", "the body has no header; its first line must name the columns"),
        ("single", b"text\n\xff\n", "the body is not UTF-8 text"),
        ("single", "犬\n", "no column '犬'; there are: text"),
        ("single", "text,x\n犬,1\n", "no column 'x'; there are: text"),
        ("single", ",\n0,1\n", "no column ''; there are: text"),
        ("single", "text,text\n犬,犬\n", "two columns are named 'text'; rename one of them"),
        ("single", "text\n犬,犬\n", "row 0 has 2 values; the header names 1 columns"),
        ("pair", "text,text_pair\n犬,犬\n犬\n", "row 1 has 1 values; the header names 2 columns"),
        ("pair", "text\n犬\n", "the column 'text_pair' is missing; the model reads text, text_pair"),
        ("single", 'text\n"犬', "the body is not CSV: unexpected end of data"),
        ("single", 'text\n"犬"犬\n', "the body is not CSV: ',' expected after '\"'"),
        ("single", "text\n" + "犬\n" * 257, "over 256 rows; a request takes no more"),
        ("single", "text\n" + "犬" * 131_073, "text: row 0 has 131073 characters; it may have 20000"),
        ("single", "," * 1_000_000, "no column ''; there are: text"),
        ("choice", "text,choices\n犬,a\n", "choices: row 0 is not a JSON list of texts"),
        ("choice", "text,choices\n犬,1\n", "choices: row 0 is not a list of texts"),
        ("choice", 'text,choices\n犬,"[1,2,3]"\n', "choices: row 0 is not text"),
    ],
)
def test_wrong_csv_is_one_sentence(service: Served, kind: str, body: Any, sentence: str) -> None:
    assert service.refused(kind, body, CSV).startswith(sentence)


def test_a_content_type_is_needed_and_a_model_is_named(service: Served) -> None:
    body = {"inputs": ["犬"]}
    for form in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
        "text/csv; charset=cp932",
        "application/json; a=b",
    ):
        status, answer = service.post("/invocations", body, form)
        assert (status, answer["error_code"]) == (415, "BAD_REQUEST")
        assert answer["message"].startswith("the Content-Type must be application/json, text/csv or ")
    for path in ("/invocations/other", "/endpoints/other/invocations"):
        status, answer = service.post(path, body)
        assert (status, answer["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")
        assert answer["message"].startswith("no model 'other'; there are: choice, pair")
    with pytest.raises(requests.HTTPError, match="no model 'other'"):
        get_deploy_client(service.address).get_endpoint("other")


@pytest.mark.parametrize("status", [401, 403, 404, 429, 499, 500, 501, 503, 504])
def test_the_codes_of_errors_are_those_of_mlflows_table(status: int) -> None:
    code = mlflow_scoring.problem(Problem(status, "why", {}))["error_code"]
    assert mlflow.exceptions.ERROR_CODE_TO_HTTP_STATUS[code] == status


def test_a_deadline_is_kept_and_ping_answers_as_mlflows_does(service: Served) -> None:
    status, answer = service.post("/invocations", {"inputs": ["犬"]}, x_request_timeout_seconds="soon")
    assert (status, answer["error_code"]) == (400, "BAD_REQUEST")
    long = {"inputs": ["映画の公開日が決定、監督が語る" * 600] * 20}
    status, answer = service.post("/invocations", long, x_request_timeout_seconds="0.001")
    assert (status, answer["error_code"]) == (504, "DEADLINE_EXCEEDED")
    with urllib.request.urlopen(f"{service.address}/ping") as pong:
        assert (pong.status, pong.read(), pong.headers["Content-Type"]) == (200, b"\n", JSON)
    with urllib.request.urlopen(f"{service.address}/health") as health:
        assert json.load(health) == {"status": "ok"}
    with urllib.request.urlopen(f"{service.address}/openapi.json") as described:
        paths = json.load(described)["paths"]
    assert {"/invocations", "/invocations/{name}", "/endpoints/{name}/invocations"} <= set(paths)


def test_a_route_s_errors_are_declared(service: Served) -> None:
    with urllib.request.urlopen(f"{service.address}/openapi.json") as described:
        declared = set(json.load(described)["paths"]["/invocations"]["post"]["responses"])
    bodies = (b"{", b'{"inputs": 1, "inputs": 2}')
    statuses = {str(service.post("/invocations", body)[0]) for body in bodies}
    assert statuses == {"400"}
    assert statuses | {"200", "404", "413", "415", "429", "504"} <= declared
