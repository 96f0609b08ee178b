"""Canaries answer their share and end when they fail; shadows change no answer, and what they differ in is kept."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pyarrow.parquet as pq
import pytest
from prometheus_client import generate_latest

from pipelines.core.errors import InputError, UsageError
from pipelines.inference.predictor import Predictor
from pipelines.serving import rollouts, side_versions
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.disagreements import Disagreements, digest
from pipelines.serving.keys import Keys
from pipelines.serving.model_sources import Source
from pipelines.serving.protocols import plain
from pipelines.serving.request_metrics import Metrics
from pipelines.serving.served_model import ServedModel
from pipelines.serving.side_versions import KEY, RANDOM, Canary, Shadow, chosen
from pipelines.tracking.registry import Version
from tests.support import exported, poisoned, raw_http, served, stores, tiny

ADMIN = {"Authorization": "Bearer 0123456789abcdef", "Content-Type": "application/json"}
ROW = {"text": "犬"}
BODIES: dict[str, dict[str, Any]] = {  # a request of each protocol for the same row
    "/predict/tiny": {"rows": [ROW]},
    "/hf/tiny": {"inputs": "犬"},
    "/invocations/tiny": {"dataframe_records": [ROW]},
    "/v2/models/tiny/infer": {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["犬"]}]},
}


@pytest.fixture
def address(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with version 1 of `tiny`, beside which the registry has a good one, a NaN one and one that errs."""
    stores.place_in(checkout)
    versions = poisoned.Versions(poisoned.first(checkout, exported.classifier(tmp_path_factory)), checkout / "made")
    assert [versions.upload(kind) for kind in ("good", "NaN", "later")] == [2, 3, 4]
    catalogue = Catalogue()
    catalogue.serve({"tiny": Source("tiny")})
    keys = Keys.parse(["operator 0123456789abcdef predict,admin", "shop fedcba9876543210"], "keys")
    with served.serving(catalogue, keys) as one:
        yield one
    mlflow.set_tracking_uri(None)


def put(address: str, path: str, **body: Any) -> raw_http.Answer:
    return raw_http.request("PUT", address, path, json.dumps(body).encode(), ADMIN)


def answered(address: str, path: str, body: dict[str, Any]) -> Any:
    answer = raw_http.post(address, path, json.dumps(body).encode(), ADMIN)
    assert answer.status == 200, answer.body
    return answer.json()


@pytest.mark.slow
def test_a_canary_and_a_shadow_of_registered_versions(address: str) -> None:
    before = {path: answered(address, path, body) for path, body in BODIES.items()}
    path = "/models/tiny/canary"
    refused = put(address, path, source="tiny@3", share=0.5)
    assert (refused.status, "NaN" in refused.json()["detail"]) == (422, True)
    assert put(address, path, source="tiny@1").json()["detail"] == "tiny version 1 answers already"
    assert put(address, "/models/nobody/canary", source="tiny@2").status == 404
    forbidden = raw_http.request("PUT", address, path, b"{}", {"Authorization": "Bearer fedcba9876543210"})
    assert forbidden.status == 403

    canary = put(address, path, source="tiny@2", share=0.5).json()["canary"]
    assert canary == {"version": 2, "share": 0.5, "by": "random", "requests": 0, "failures": 0, "replay": None}
    versions = Counter(answered(address, "/predict/tiny", BODIES["/predict/tiny"])["version"] for _ in range(60))
    assert versions.keys() == {1, 2}, "once in 2**59 runs all go to one"
    for other, body in BODIES.items():
        answers = [json.dumps(answered(address, other, body)) for _ in range(40)]
        assert len(set(answers)) == 2, other
    one = "/v2/models/tiny/versions/1/infer"
    assert {json.dumps(answered(address, one, BODIES["/v2/models/tiny/infer"])) for _ in range(40)} == {
        json.dumps(before["/v2/models/tiny/infer"])
    }
    counts = raw_http.get(address, "/metrics", ADMIN).body.decode()
    assert 'bertline_canary_requests_total{model="tiny",result="answered",version="2"}' in counts
    assert raw_http.request("DELETE", address, path, None, ADMIN).status == 204
    assert raw_http.request("DELETE", address, path, None, ADMIN).json() == {"detail": "tiny has no canary"}

    shadow = put(address, "/models/tiny/shadow", source="tiny@2").json()["shadow"]
    assert (shadow["version"], shadow["share"]) == (2, 1.0)
    assert {path: answered(address, path, body) for path, body in BODIES.items()} == before

    sent = {"rows": [{"text": poisoned.TRIGGER}]}  # on which version 4 errs
    poisoned.promote(4)
    assert raw_http.post(address, "/models/tiny/refresh", b"", ADMIN).json()["version"] == 4
    assert {answered(address, "/predict/tiny", sent)["version"] for _ in range(5)} == {1}
    model = raw_http.get(address, "/models/tiny", ADMIN).json()
    assert (model["version"], model["refused"]["version"], model["shadow"]["version"]) == (1, 4, 2), "the shadow stays"
    assert put(address, path, source="tiny@2", share=0.5).status == 200
    model = raw_http.post(address, "/models/tiny/refresh", b"", ADMIN).json()
    assert (model["version"], model["refused"]["version"]) == (1, 4), "a canary brings back no refused version"

    put(address, path, source="tiny@4", share=1.0)
    assert {answered(address, "/predict/tiny", sent)["version"] for _ in range(10)} == {1}
    model = raw_http.get(address, "/models/tiny", ADMIN).json()
    assert model["canary"] is None
    assert model["ended_canary"]["version"] == 4
    assert "failed in 3 of 3 requests" in model["ended_canary"]["reason"]
    assert model["shadow"]["rows"]["agreed"] >= 1
    counts = raw_http.get(address, "/metrics", ADMIN).body.decode()
    assert 'bertline_swaps_total{model="tiny",outcome="canary_ended"} 1.0' in counts


@pytest.mark.slow
def test_a_request_that_fails_changes_no_model(address: str) -> None:
    before = raw_http.get(address, "/models", ADMIN).json()
    number = "9" * 23
    for body, why in (
        ({"source": "tiny@2", "runtime": "gpu"}, "runtime: Input should be '', 'onnx' or 'torch'"),
        ({"source": "tiny@3"}, "tiny version 3 is refused"),
        ({"source": ""}, "source: String should have at least 1 character"),
        ({"source": "@"}, "source: NAME, NAME@ALIAS or NAME@NUMBER is expected; folders are named when"),
        ({"source": "tiny=."}, "source: NAME, NAME@ALIAS or NAME@NUMBER is expected; folders are named when"),
        ({"source": f"tiny@{number}"}, f"tiny: no version {number}"),
    ):
        for name in ("tiny", "other"):
            refused = put(address, f"/models/{name}", **body)
            assert (refused.status, refused.json()["detail"][: len(why)]) == (422, why), name
    assert raw_http.get(address, "/models", ADMIN).json() == before
    assert "bertline_swaps_total{" not in raw_http.get(address, "/metrics", ADMIN).body.decode()


@pytest.mark.slow
def test_a_model_that_has_the_name_of_a_folder_s_masks_is_its_own(
    version: Version, tmp_path_factory: pytest.TempPathFactory
) -> None:
    catalogue, folder = Catalogue(), exported.classifier(tmp_path_factory) / "onnx"
    encoder = exported.encoder(tmp_path_factory) / "onnx"
    with contextlib.closing(catalogue):
        catalogue.serve({"single": Source("single", folder=folder), "mini": Source("mini", folder=encoder)})
        catalogue.add("single.fill_mask", Source("tiny"))
        catalogue.add("other", Source("tiny"))
        catalogue.remove("single.fill_mask")
        assert [model.name for model in catalogue] == ["single", "mini", "mini.fill_mask", "other"]
        with pytest.raises(InputError, match=r"two models would have the name mini\.fill_mask; choose another"):
            catalogue.add("mini.fill_mask", Source("tiny"))
        assert not catalogue.swaps


@pytest.fixture(scope="module")
def taggers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Catalogue, ServedModel]:
    """A tagger behind a catalogue, and another version of it with other weights."""
    place = tmp_path_factory.mktemp("taggers")
    versions = {
        Version("tagger", number, {}): Predictor.load(tiny.classifier(place / str(number), "tagging", seed=number))
        for number in (1, 2)
    }
    first, second = versions
    other = served.of_predictors({second: versions[second]})["tagger"]
    return served.of_predictors({first: versions[first]}), other


def test_a_tagger_s_shadow_keeps_what_differs_and_no_text(
    taggers: tuple[Catalogue, ServedModel], tmp_path: Path
) -> None:
    models, other = taggers
    texts = ["私は犬が好き。", "映画の公開日が決定", "a b c"] * 3

    async def ask(texts_too: bool) -> tuple[Shadow, list[Any]]:
        kept = Disagreements(tmp_path / str(texts_too), texts_too)
        shadow = Shadow(other, 1.0, kept)
        answers = await replace(models["tagger"], shadow=shadow).answer({"text": texts})
        while shadow._running:
            await asyncio.sleep(0.01)
        kept.close()
        return shadow, answers.predictions

    plain = asyncio.run(models["tagger"].answer({"text": texts})).predictions
    shadow, answers = asyncio.run(ask(texts_too=False))
    assert answers == plain
    assert shadow.rows.total() == len(texts)
    assert shadow.rows["differed"] > 0, "other weights find other entities"
    (file,) = (tmp_path / "False").iterdir()
    rows = pq.read_table(file).to_pylist()
    assert len(rows) == shadow.rows["differed"]
    assert {row["digest"] for row in rows} <= {digest({"text": text}) for text in texts}
    assert {(row["version"], row["other"], row["row"]) for row in rows} == {(1, 2, None)}
    assert all(row["answer"] != row["other_answer"] for row in rows)
    assert not any(text in file.read_bytes().decode("latin-1") for text in texts)
    asyncio.run(ask(texts_too=True))
    (file,) = (tmp_path / "True").iterdir()
    assert {json.loads(row["row"])["text"] for row in pq.read_table(file).to_pylist()} <= set(texts)


def test_a_tagger_s_canary_answers_its_share_and_ends_when_it_is_slow(taggers: tuple[Catalogue, ServedModel]) -> None:
    models, other = taggers
    causes: list[str] = []

    def ended(canary: Canary, cause: str, lasting: bool) -> None:
        causes.append(cause)
        assert not lasting, "another time the machine may have nothing else to do"

    canary = Canary(other, 0.5, RANDOM, 0.0, ended)  # the machine may be slow
    model = replace(models["tagger"], canary=canary)

    async def ask(count: int) -> Counter[int]:
        return Counter([(await model.answer({"text": ["犬"]})).model.version.version for _ in range(count)])

    versions = asyncio.run(ask(100))
    assert versions.keys() == {1, 2}
    assert canary.requests == versions[2]
    canary.max_slowdown = 5.0
    for times in (4.9, 6.0):
        assert causes == []
        for _ in range(side_versions.COMPARED):
            canary.note(1.0, ours=False)
        for _ in range(side_versions.COMPARED):
            canary.note(times, ours=True)
    (cause,) = causes  # once half of the answers that count are the slow ones
    assert cause.startswith("took 5.")
    assert cause.endswith(" times as long as the other version; 5 are allowed")
    assert not canary.takes("")
    assert asyncio.run(ask(20)) == {1: 20}


def test_tensors_have_the_labels_of_the_version_that_answers(tmp_path: Path) -> None:
    labels = ("a", "b", "c", "d")
    first, second = Version("topics", 1, {}), Version("topics", 2, {})
    others = Predictor.load(tiny.classifier(tmp_path / "other", labels=labels))
    models = served.of_predictors({first: Predictor.load(tiny.classifier(tmp_path / "first"))})
    canary = Canary(served.of_predictors({second: others})["topics"], 1.0, RANDOM, 0.0, lambda *_: None)
    models.change("topics", canary=canary)
    body = {"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["犬", "映画"]}]}
    with served.serving(models) as address:
        answer = raw_http.post(address, "/v2/models/topics/infer", raw_http.encoded(body)).json()
    (scores,) = [tensor for tensor in answer["outputs"] if tensor["name"] == "scores"]
    assert answer["model_version"] == "2"
    assert (scores["shape"], len(scores["data"])) == ([2, len(labels)], 2 * len(labels))


def test_a_version_with_another_number_of_choices_takes_other_rows(tmp_path: Path) -> None:
    two, three = (
        served.of_predictors({Version("quiz", n, {}): Predictor.load(tiny.classifier(tmp_path / str(n), "choice"))})
        for n in (1, 2)
    )
    task = three["quiz"].predictor.task
    three["quiz"].predictor.task = task.with_(labels=(*task.labels, "one more"))
    assert two["quiz"].reads_rows_of(two["quiz"])
    assert not two["quiz"].reads_rows_of(three["quiz"])


def test_a_canary_whose_answers_come_after_the_deadline_ends(taggers: tuple[Catalogue, ServedModel]) -> None:
    """An answer that a deadline cuts off took at least as long; one that its client did not wait for says nothing."""
    models, other = taggers
    causes: list[str] = []
    canary = Canary(other, 1.0, RANDOM, 5.0, lambda canary, cause, lasting: causes.append(cause))
    other.batcher.queue.put = lambda *arguments: None  # type: ignore[method-assign]

    def note_others(seconds: float) -> None:
        for _ in range(side_versions.COMPARED):
            canary.note(seconds, ours=False)

    async def ask(seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await canary.answer(models["tagger"], {"text": ["犬"]}, "")

    async def ask_often() -> None:
        for _ in range(side_versions.LEAST_COMPARED):
            await ask(0.02)

    try:
        note_others(10.0)
        asyncio.run(ask(0.0))
        assert not canary._seconds[True]
        note_others(0.001)
        asyncio.run(ask_often())
    finally:
        del other.batcher.queue.put
    (cause,) = causes
    assert " times as long as the other version; 5 are allowed" in cause


def test_a_canary_whose_model_is_gone_ends_quietly(
    taggers: tuple[Catalogue, ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    models, other = taggers
    causes: list[tuple[str, bool]] = []
    monkeypatch.setattr(models, "open_beside", lambda name, source: (other, lambda *cause: causes.append(cause)))
    monkeypatch.setattr(models, "_models", dict(models._models))
    rollouts.put_canary(models, "tagger", Source("tagger", "2"))
    canary = models["tagger"].canary
    assert canary
    models._models = {}
    canary.stop("was slow", lasting=False)
    assert (causes, models.ended) == ([("was slow", False)], {})


def test_metrics_have_the_work_of_versions_beside_the_one_that_answers(
    taggers: tuple[Catalogue, ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    models, other = taggers
    monkeypatch.setattr(models, "_models", dict(models._models))
    models.change("tagger", canary=Canary(other, 1.0, RANDOM, 0.0, lambda *_: None))
    registry = Metrics(models).registry

    def rows(number: int) -> float:
        return registry.get_sample_value("bertline_rows_total", {"model": "tagger", "version": str(number)}) or 0.0

    before = rows(1), rows(2)
    asyncio.run(models["tagger"].answer({"text": ["犬", "映画"]}))
    assert (rows(1), rows(2)) == (before[0], before[1] + 2)
    models.change("tagger", shadow=Shadow(other, 1.0, None))
    samples = [line for line in generate_latest(registry).decode().splitlines() if line.startswith("bertline_rows_to")]
    assert len(samples) == 2, "a version that is canary and shadow has one series"


@pytest.mark.parametrize("against", [1, 7])
def test_a_canary_and_a_shadow_are_held_against_the_replay(
    taggers: tuple[Catalogue, ServedModel], against: int
) -> None:
    models, other = taggers
    replay = {"answers": 50, "share": 0.0, "interval": [0.0, 0.07], "against": against, "tolerance": 0.1}
    with_replay = replace(other, version=replace(other.version, tags={"verdict": json.dumps({"replay": replay})}))
    canary = Canary(with_replay, 1.0, RANDOM, 0.0, lambda *_: None)
    shadow = Shadow(with_replay, 1.0, None)
    texts = [f"私は犬が好き。{number}" for number in range(30)]

    async def ask() -> None:
        await replace(models["tagger"], canary=canary).answer({"text": texts})
        await replace(models["tagger"], shadow=shadow).answer({"text": texts})
        while shadow._running or (canary._mirror and canary._mirror._running):
            await asyncio.sleep(0.01)

    asyncio.run(ask())
    assert shadow.rows["differed"] == 30
    assert canary.live
    assert shadow.live
    for live in (canary.live, shadow.live):
        assert (live.rows, live.changed) == ((30, 30) if against == 1 else (0, 0)), "the replay was against another"
        assert live.verdict == ("more" if against == 1 else "")
    assert plain._canary(canary).replay == plain._shadow(shadow).replay
    assert bool(canary._mirror) == (against == 1)
    canary._compare(other, {"text": texts}, None)  # type: ignore[arg-type]  # another version answers now
    assert canary._mirror is None, "the memory of the former one is free"


def test_a_key_always_meets_the_canary_or_never_does() -> None:
    keys = [f"key{number}" for number in range(2000)]
    met = {key for key in keys if chosen(0.2, KEY, key, "m 2")}
    assert met == {key for key in keys if chosen(0.2, KEY, key, "m 2")}
    assert 300 < len(met) < 500
    assert met != {key for key in keys if chosen(0.2, KEY, key, "m 3")}, "another version meets other keys"
    assert not chosen(1.0, KEY, "", "m 2")
    assert chosen(1.0, RANDOM, "", "")


def test_the_command_line_names_a_version_and_its_share() -> None:
    sources = {"m@champion": Source("m"), "n": Source("n")}
    assert rollouts.parsed(["m@4:0.1", "n@2"], sources, "", 0.05) == {
        "m@champion": (Source("m", "4"), 0.1),
        "n": (Source("n", "2"), 0.05),
    }
    for text, sentence in (("m@4:x", "is not a share"), ("o@1", "no served model 'o'")):
        with pytest.raises(UsageError, match=sentence):
            rollouts.parsed([text], sources, "", 0.05)
    with pytest.raises(UsageError, match="one version stands beside"):
        rollouts.parsed(["m@4", "m@5"], sources, "", 0.05)
