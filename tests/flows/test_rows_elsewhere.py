"""`bertline new` and `add` with rows in S3 and in databases: they are copied, and the copy is the corpus."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from botocore.exceptions import ClientError

from pipelines.core import s3_objects
from pipelines.core.errors import InputError
from pipelines.core.s3_objects import Objects
from tests.conftest import ROOT
from tests.support import commands, faulty_s3, tickets
from tests.support import postgres as databases
from tests.support.faulty_s3 import Proxy
from tests.support.servers import BUCKET, KEYS

FROM = f"s3://{BUCKET}/from"
ROWS = tickets.texts("en", 60)
HEADER = "text,label\n"
SECRET = "Xs3cr3tX"


@pytest.fixture
def place(checkout: Path) -> Path:
    """A checkout with a graph and encoders, and no entries."""
    (checkout / "dvc.yaml").symlink_to(ROOT / "dvc.yaml")
    (checkout / "encoders").symlink_to(ROOT / "encoders")
    (checkout / ".dvc").mkdir()
    return checkout


@pytest.fixture(scope="module")
def running() -> Iterator[Proxy]:
    with faulty_s3.running() as proxy:
        yield proxy


@pytest.fixture
def s3(running: Proxy, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """An empty bucket; the environment names it."""
    with faulty_s3.emptied(running, monkeypatch) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def server() -> Iterator[databases.Postgres]:
    with databases.postgres() as running_server:
        yield running_server


def put(proxy: Proxy, files: dict[str, str | bytes]) -> None:
    """Put files below `from`."""
    for name, body in files.items():
        content = body.encode() if isinstance(body, str) else body
        faulty_s3.client(proxy).put_object(Bucket=BUCKET, Key=f"from/{name}", Body=content)


def lines(rows: list[tuple[str, str]]) -> str:
    return "".join(f"{text},{label}\n" for text, label in rows)


def parquet(rows: list[tuple[str, str]]) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": [text for text, _ in rows], "label": [label for _, label in rows]}), out)
    return out.getvalue().to_pybytes()


def new(*words: str) -> commands.Ended:
    return commands.bertline("new", *words, "--yes").require(0)


def prepare_keys(name: str) -> dict[str, object]:
    return yaml.safe_load(Path("params.yaml").read_text())["prepare"][name]


def left_behind(place: Path) -> list[str]:
    return [file.name for file in place.iterdir() if file.name.startswith(".bertline")]


def test_a_file_in_s3_is_copied_beside_the_params_and_grows(s3: Proxy, place: Path) -> None:
    put(s3, {"tickets.csv": HEADER + lines(ROWS)})
    ended = new(f"{FROM}/tickets.csv")
    assert ended.out.startswith(f"{FROM}/tickets.csv: copied to tickets.csv\ntickets.csv: csv in utf-8; 60 rows")
    assert "next: dvc add tickets.csv\n" in ended.out
    assert Path("tickets.csv").read_text() == HEADER + lines(ROWS)
    assert "  tickets:  # 60 rows from s3://bertline/from/tickets.csv\n" in Path("params.yaml").read_text()
    assert prepare_keys("tickets")["source"] == "tickets.csv"
    assert "all well-formed" in commands.bertline("check").require(0).out
    more = tickets.texts("en", 6, seed=7)
    put(s3, {"march/1.csv": HEADER + lines(more[:3]), "march/2.csv": HEADER + lines(more[3:] + ROWS[:2])})
    put(s3, {"march/_SUCCESS": "x"})
    ended = commands.bertline("add", f"{FROM}/march", "--to", "tickets").require(0)
    assert f"{FROM}/march: 2 rows repeat a text, and are left out: line 8, line 9" in ended.out
    assert "tickets.csv: 6 rows are added" in ended.out
    assert Path("tickets.csv").read_text() == HEADER + lines(ROWS + more)
    assert left_behind(place) == []


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "splits", "labels", "words"])
def test_a_folder_in_s3_becomes_one_corpus(form: str, s3: Proxy) -> None:
    first, second = ROWS[:40], ROWS[40:]
    source, words = f"mails.{form}", [f"{FROM}/", "mails"]
    if form == "csv":  # ASCII and UTF-8 agree; an empty shard, as Spark writes one
        shards = [HEADER + lines(first).rstrip("\n"), HEADER + lines(second) + "払い戻し,bug\n", ""]
        put(s3, {f"{i}.csv": shard for i, shard in enumerate(shards)})
    elif form == "jsonl":
        objects = ["\n".join(json.dumps({"text": t, "label": one}) for t, one in part) for part in (first, second)]
        put(s3, {"a.jsonl": objects[0], "b.jsonl": objects[1]})
    elif form == "parquet":
        put(s3, {"day=1/a.parquet": parquet(first), "day=2/b.parquet": parquet(second)})
    elif form == "labels":
        put(s3, {f"{label}/{i}.txt": text for i, (text, label) in enumerate(ROWS)})
        source = "mails"
    else:
        parts = {"train-1.csv": first[:20], "train-2.csv": first[20:], "test-1.csv": second}
        put(s3, {name: HEADER + lines(rows) for name, rows in parts.items()})
        source = "mails"
        words = [*(f"{FROM}/{name}" for name in parts), "mails"] if form == "words" else words
    assert f"{60 + (form == 'csv')} rows of kind single" in new(*words).out
    keys = prepare_keys("mails")
    assert keys["source"] == source
    is_divided = form in ("splits", "words")
    assert keys.get("files", {}) == ({"train": "train.csv", "test": "test.csv"} if is_divided else {})
    assert "all well-formed" in commands.bertline("check").require(0).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["s3://no-such-bucket/a.csv"], "there is no bucket no-such-bucket"),
        (["s3://"], "s3://: s3://BUCKET/FOLDER is expected"),
        ([f"{FROM}/none"], f"{FROM}/none: no such file or folder"),
        ([FROM], f"{FROM}: files of several formats (.csv, .jsonl)"),
        ([f"{FROM}/day"], f"{FROM}/day/b.csv: its first line is not that of a.csv"),
        ([f"{FROM}/mixed"], f"{FROM}/mixed/b.csv: its name does not say which split it is"),
        ([f"{FROM}/a.csv", "old"], "old.csv: it is there already"),
        ([f"{FROM}/a.csv"], f"{FROM}/a.csv: no column holds labels"),
        ([f"{FROM}/a.csv", "mine.csv"], "2 places of rows; name files of this machine, files in S3"),
        ([f"{FROM}/a.csv", "--query", "SELECT 1"], "--query: it chooses rows of a database"),
    ],
)
def test_what_s3_does_not_have_is_refused_in_a_sentence(words: list[str], message: str, s3: Proxy, place: Path) -> None:
    put(s3, {"a.csv": "text\nx\ny\n", "b.jsonl": "{}", "day/a.csv": HEADER, "day/b.csv": "label,text\na,b\n"})
    put(s3, {"mixed/test.csv": HEADER, "mixed/b.csv": HEADER})
    Path("old.csv").write_text(HEADER)
    before = {*place.iterdir()}
    ended = commands.bertline("new", *words, "--yes")
    assert ended.status in (1, 2)
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert {*place.iterdir()} == before


def test_an_answer_that_is_cut_or_does_not_come_leaves_nothing(
    s3: Proxy, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3, {"a.csv": HEADER + lines(ROWS)})
    before = {*place.iterdir()}
    s3.share, s3.faults, s3.only = 1.0, ("cut",), "/from/a.csv"
    assert "run it again" in commands.bertline("new", f"{FROM}/a.csv").require(1).err
    monkeypatch.setattr(s3_objects, "ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "S3 does not answer" in commands.bertline("new", f"{FROM}/a.csv").require(1).err
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials of this process
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(place / "none"))
    assert "no credentials for S3; set AWS_ACCESS_KEY_ID" in commands.bertline("new", f"{FROM}/a.csv").require(1).err
    with (
        pytest.raises(InputError, match="check AWS_ACCESS_KEY_ID and the rights of its user"),
        Objects("b")._answering(""),
    ):
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetObject")
    assert {*place.iterdir()} == before


def tables_of(file: str = "mine.db") -> str:
    """A SQLite file with tickets, and its address."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE tickets (id INTEGER, body TEXT, kind TEXT, price REAL, day DATE, raw BLOB)")
        rows = [(i, text, label, i / 2, "2026-11-28", b"x") for i, (text, label) in enumerate(ROWS)]
        connection.executemany("INSERT INTO tickets VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO tickets (id, body) VALUES (60, 'nobody has read it')")
        connection.commit()
    return f"sqlite:///{file}"


@pytest.mark.usefixtures("place")
def test_rows_of_sqlite_are_copied_and_grow() -> None:
    query = "SELECT id, body, kind, price, day\n FROM tickets WHERE id < {} AND body LIKE '%' ORDER BY id"
    out = new(tables_of(), "tickets", "--query", "SELECT id, body, kind, price, day\n FROM tickets ORDER BY id").out
    assert "sqlite:///mine.db: copied to tickets.jsonl\ntickets.jsonl: jsonl in utf-8; 61 rows of kind single" in out
    assert "columns: id is 'id', text is 'body', label is 'kind'" in out
    assert "1 rows without a label are left out: line 61" in out
    first = json.loads(Path("tickets.jsonl").read_text().splitlines()[1])
    assert first == {"id": 1, "body": ROWS[1][0], "kind": ROWS[1][1], "price": 0.5, "day": "2026-11-28"}
    comment = "# 61 rows from sqlite:///mine.db: SELECT id, body, kind, price, day FROM tickets ORDER BY id\n"
    assert comment in Path("params.yaml").read_text()
    assert "all well-formed" in commands.bertline("check").require(0).out
    with closing(sqlite3.connect("mine.db")) as connection:
        connection.execute("INSERT INTO tickets (id, body, kind) VALUES (61, 'where is the manual', 'how-to')")
        connection.commit()
    ended = commands.bertline("add", "sqlite:///mine.db", "--query", query.format(62), "--to", "tickets").require(0)
    assert "sqlite:///mine.db: 60 rows repeat a text" in ended.out
    assert "tickets.jsonl: 1 rows are added" in ended.out


@databases.needed
def test_rows_of_postgresql_are_copied_without_the_password(server: databases.Postgres, place: Path) -> None:
    server.database("desk")
    server.execute("desk", "CREATE TABLE tickets (id int, body text, kind text, paid numeric(6, 2), at timestamptz)")
    values = ", ".join(f"({i}, '{text}', '{label}', {i}.50, now())" for i, (text, label) in enumerate(ROWS))
    server.execute("desk", f"INSERT INTO tickets VALUES {values}")
    address = f"postgresql://postgres:{SECRET}@127.0.0.1:{server.port}/desk"
    query = "SELECT * FROM tickets WHERE body LIKE '%' AND id::int >= {} ORDER BY id"
    ended = new(address, "--query", query.format(20))
    origin = f"postgresql://127.0.0.1:{server.port}/desk"
    assert f"{origin}: copied to desk.jsonl" in ended.out
    assert f"# 40 rows from {origin}: SELECT * FROM tickets WHERE" in Path("params.yaml").read_text()
    assert json.loads(Path("desk.jsonl").read_text().splitlines()[0])["paid"] == "20.50"
    added = commands.bertline("add", address, "--query", query.format(0), "--to", "desk").require(0)
    assert "desk.jsonl: 20 rows are added" in added.out
    failed = [
        commands.bertline("new", address, "other", "--query", "DELETE FROM tickets RETURNING *").require(1),
        commands.bertline("new", address, "other", "--query", "SELECT nothing FROM tickets").require(1),
        commands.bertline("new", address.replace("/desk", "/none"), "--query", "SELECT 1").require(1),
    ]
    assert 'the query fails (column "nothing" does not exist' in failed[1].err
    assert f"{origin.replace('/desk', '/none')}: no connection (" in failed[2].err
    assert server.execute("desk", "SELECT count(*) FROM tickets") == [(60,)]
    written = "".join(file.read_text() for file in place.iterdir() if file.is_file() and file.suffix != ".db")
    assert SECRET not in written + "".join(end.out + end.err for end in (ended, added, *failed))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sqlite:///mine.db"], 'sqlite:///mine.db: which rows? write --query "SELECT ..."'),
        (["sqlite:///none.db", "--query", "SELECT 1"], "sqlite:///none.db: no such file"),
        (["sqlite://", "--query", "SELECT 1"], "sqlite: postgresql://USER@HOST/DATABASE or sqlite:///FILE is expected"),
        (["sqlite:///mine.db", "--query", "SELECT x"], "the query fails (no such column: x)"),
        (["sqlite:///mine.db", "--query", "DROP TABLE tickets"], "attempt to write a readonly database"),
        (["sqlite:///mine.db", "--query", "SELECT * FROM tickets WHERE id < 0"], "the query gives no row"),
        (["sqlite:///mine.db", "--query", "PRAGMA query_only = 1"], "the query gives no rows; a SELECT is expected"),
        (["sqlite:///mine.db", "--query", "SELECT id, kind AS id FROM tickets"], "two columns of the query are named"),
        (["sqlite:///mine.db", "--query", "SELECT raw FROM tickets"], "mine.db: row 1: raw: bytes; convert them"),
        (["sqlite:///mine.db", "--query", "SELECT 9e999 AS x"], "row 1: x: inf; a finite number is expected"),
        (["sqlite:///mine.db", "sqlite:///b.db", "--query", "SELECT 1"], "2 places of rows"),
        ([f"postgresql://a:{SECRET}@127.0.0.1:9/b", "--query", "SELECT 1"], "//127.0.0.1:9/b: no connection (conn"),
        ([f"postgresql://a:{SECRET}@127.0.0.1:port/b", "--query", "SELECT 1"], "postgresql: postgresql://USER@HOST"),
        ([f"postgresql://a:{SECRET}@127.0.0.1", "--query", "SELECT 1"], "postgresql: postgresql://USER@HOST"),
        ([f"mysql://a:{SECRET}@127.0.0.1/b", "--query", "SELECT 1"], "no kind of address 'mysql'; there are: postg"),
        ([f"https://a:{SECRET}@127.0.0.1/b"], "https: an address; fetch the file first"),
    ],
)
def test_a_database_that_cannot_give_rows_is_refused_without_the_password(
    words: list[str], message: str, place: Path
) -> None:
    tables_of()
    before = {*place.iterdir()}
    ended = commands.bertline("new", *words, "--yes")
    assert ended.status in (1, 2)
    assert message in ended.err
    assert ended.err.count("\n") == 1
    assert SECRET not in ended.err + ended.out
    assert {*place.iterdir()} == before
