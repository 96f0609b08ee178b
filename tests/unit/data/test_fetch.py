"""Fetching from a real server on loopback: whole, cut off, wrong, missing."""

import hashlib
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipelines.core.errors import InputError, UsageError
from pipelines.data.fetch import fetch, fetch_all
from pipelines.data.sources import Source, only
from pipelines.stages import ingest
from tests.support.places import ROOT

CONTENT = bytes(range(256)) * 2000
SHA = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; the first answer of a `cut` is broken off in the middle."""

    asked: list[str | None] = []

    def do_GET(self) -> None:
        span = self.headers.get("Range")
        self.asked.append(span)
        start = int(span.removeprefix("bytes=").rstrip("-")) if span else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if span else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        body = CONTENT[start:]
        self.wfile.write(body[: len(body) // 2] if self.path == "/cut" and len(self.asked) == 1 else body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("BERTLINE_BACKOFF", "0")
    Handler.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_a_download_that_is_cut_goes_on_where_it_was(server: str, tmp_path: Path) -> None:
    source = Source("f", url=f"{server}/cut", size_bytes=len(CONTENT), sha256=SHA)
    assert [file.read_bytes() for file in fetch(source, tmp_path / "raw")] == [CONTENT]
    assert Handler.asked == [None, f"bytes={len(CONTENT) // 2}-"]


def test_a_verified_file_is_not_fetched_again(server: str, tmp_path: Path) -> None:
    source = Source("f", url=f"{server}/f", size_bytes=len(CONTENT), sha256=SHA)
    fetch(source, tmp_path / "raw")
    fetch(source, tmp_path / "raw")
    assert len(Handler.asked) == 1


def test_a_download_that_was_complete_when_its_process_was_killed_begins_again(server: str, tmp_path: Path) -> None:
    source = Source("f", url=f"{server}/f", sha256=SHA)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/.f.partial").write_bytes(CONTENT)
    assert [file.read_bytes() for file in fetch(source, tmp_path / "raw")] == [CONTENT]
    assert Handler.asked == [f"bytes={len(CONTENT)}-", None]


def test_a_wrong_checksum_names_both_and_leaves_nothing(server: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"sha256 {SHA}, {'0' * 64} is declared"):
        fetch(Source("f", url=f"{server}/f", sha256="0" * 64), tmp_path / "raw")
    assert list((tmp_path / "raw").iterdir()) == []


def test_a_partial_checksum_is_refused_and_unchecked_files_are_reported(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    with pytest.raises(AssertionError, match="f: its sha256 has 4 digits, not 64"):
        Source("f", sha256=SHA[:4])
    known = {"one": SHA[:16], "two": ""}
    fetch_all([Source(name, url=f"{server}/{name}", sha256_begins=known[name]) for name in known], tmp_path)
    assert [line for line in capsys.readouterr().err.splitlines() if "sha256" in line] == [
        "one: only the first 16 digits of its sha256 are declared; these match, the others are not checked",
        "two: no sha256 is declared, so its content is not checked",
    ]
    with pytest.raises(InputError, match=f"f has sha256 {SHA}, 0000... is declared"):
        fetch(Source("f", url=f"{server}/f", sha256_begins="0000"), tmp_path)


def test_offline_says_what_is_missing_and_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTLINE_MIRROR", raising=False)
    monkeypatch.setenv("BERTLINE_OFFLINE", "1")
    with pytest.raises(InputError, match=r"put it at sub/f in .* BERTLINE_MIRROR"):
        fetch(Source("f", url="http://127.0.0.1:1/f", mirror="sub/f"), tmp_path)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_mirror_folder_serves(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mirror" / "sub").mkdir(parents=True)
    (tmp_path / "mirror" / "sub" / "f").write_bytes(CONTENT)
    monkeypatch.setenv("BERTLINE_MIRROR", f"{scheme}{tmp_path / 'mirror'}")
    source = Source("f", url="http://127.0.0.1:1/f", mirror="sub/f", sha256=SHA)
    assert [file.read_bytes() for file in fetch(source, tmp_path / "raw")] == [CONTENT]


def test_an_unreachable_address_fails_in_one_sentence(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_BACKOFF", "0")
    with pytest.raises(InputError, match=r"to use a copy, name a folder that holds .* in BERTLINE_MIRROR"):
        fetch(Source("f", url="http://127.0.0.1:1/f"), checkout)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror with the two members of an archive, beside each other, and digests of its own."""
    folder = tmp_path / "mirror"
    (folder / "sub").mkdir(parents=True)
    for name in ("a.tsv", "b.tsv"):
        (folder / "sub" / name).write_bytes(name.encode())
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.tsv", "b.tsv")}
    (folder / "MANIFEST.sha256").write_text("".join(f"{digest}  ./sub/{name}\n" for name, digest in digests.items()))
    monkeypatch.setenv("BERTLINE_MIRROR", str(folder))
    return folder


ARCHIVE = Source(
    "it.zip",
    url="http://127.0.0.1:1/it.zip",
    mirror="sub/it.zip",
    members={"a.tsv": "sub/a.tsv", "b.tsv": "sub/b.tsv"},
    size_bytes=len(CONTENT),
    sha256=SHA,
)


def test_a_mirror_may_hold_an_archives_members(mirror: Path, tmp_path: Path) -> None:
    assert [file.name for file in fetch_all([ARCHIVE], tmp_path / "raw")] == ["a.tsv", "b.tsv"]
    (mirror / "sub" / "it.zip").write_bytes(CONTENT)
    assert [file.name for file in fetch_all([ARCHIVE], tmp_path / "other")] == ["it.zip"]


def test_a_member_is_checked_by_the_mirrors_own_digests(mirror: Path, tmp_path: Path) -> None:
    (mirror / "sub" / "b.tsv").write_bytes(b"changed")
    with pytest.raises(InputError, match=r"b\.tsv has sha256 \w+, the mirror's MANIFEST\.sha256 says"):
        fetch_all([ARCHIVE], tmp_path / "raw")
    assert not (tmp_path / "raw" / "b.tsv").exists()


def test_only_some_files_may_be_asked_for(mirror: Path, tmp_path: Path) -> None:
    (mirror / "sub" / "b.tsv").unlink()
    with pytest.raises(InputError, match=r"b\.tsv: no such file"):
        fetch_all([ARCHIVE], tmp_path / "raw")
    chosen = only([ARCHIVE], ["a.tsv"], "params.yaml")
    assert [file.name for file in fetch_all(chosen, tmp_path / "raw")] == ["a.tsv"]
    with pytest.raises(UsageError, match=r"params\.yaml: no file 'c\.tsv'.*there are: a\.tsv, b\.tsv"):
        only([ARCHIVE], ["c.tsv"], "params.yaml")


def test_many_files_come_together(server: str, tmp_path: Path) -> None:
    sources = [Source(f"f{i}", url=f"{server}/f{i}", size_bytes=len(CONTENT), sha256=SHA) for i in range(12)]
    files = fetch_all(sources, tmp_path / "raw")
    assert [file.name for file in files] == [source.name for source in sources]
    assert all(file.read_bytes() == CONTENT for file in files)


def test_what_has_no_address_says_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTLINE_MIRROR", raising=False)
    with pytest.raises(InputError, match=r"eng\.train is missing and it has no official address; put it at conll/eng"):
        fetch(Source("eng.train", mirror="conll/eng.train", sha256=SHA), tmp_path)


def test_a_file_is_copied_where_it_cannot_be_linked(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloads on another volume than artifacts: here in memory."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == checkout.stat().st_dev:
        pytest.skip("no second volume")
    with tempfile.TemporaryDirectory(dir=memory) as other:
        (checkout / "state").symlink_to(other)
        (checkout / "samples").symlink_to(ROOT / "samples")
        Path("params.yaml").write_text("ingest: {it: {corpus: livedoor, edition: samples}}")
        monkeypatch.delenv("BERTLINE_MIRROR", raising=False)
        ingest.main("it")
        (file,) = (file for file in Path("artifacts/raw/it").iterdir() if file.name != "provenance.json")
        assert file.stat().st_nlink == 1
        assert file.stat().st_size > 1000
