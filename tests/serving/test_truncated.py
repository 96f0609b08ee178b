"""An answer names the rows that were longer than the model reads; a long text that is read in parts is not one."""

from typing import Any

import pytest

from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from tests.support import exported, raw_http, served

pytestmark = pytest.mark.slow
LONG = "犬" * 500
# kind -> rows, and the numbers of those that are cut
ROWS: dict[str, tuple[list[dict[str, Any]], list[int]]] = {
    "single": ([{"text": "犬"}, {"text": LONG}, {"text": "映画"}, {"text": LONG}], [1, 3]),
    "pair": ([{"text": "犬", "text_pair": LONG}, {"text": "犬", "text_pair": "映画"}], [0]),
    "regression": ([{"text": "犬", "text_pair": "映画"}, {"text": LONG, "text_pair": "犬"}], [1]),
    "choice": ([{"text": "犬", "choices": ["a", "b", LONG]}, {"text": "犬", "choices": ["a", "b", "c"]}], [0]),
    "span": ([{"question": "犬", "context": LONG}, {"question": LONG, "context": "犬"}], [1]),
    "tagging": ([{"text": LONG}], []),
    "encoder": ([{"text": LONG}, {"text": "犬"}], [0]),
    "encoder.fill_mask": ([{"text": "犬[MASK]"}], []),
}


def test_truncated_rows_are_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    folders = exported.models(tmp_path_factory)
    models, names = Catalogue(), [name for name in ROWS if "." not in name]
    models.serve({name: Source(name, folder=folders / f"{name}-onnx") for name in names})
    with served.serving(models) as address:
        for name, (rows, cut) in ROWS.items():
            answer = raw_http.post(address, f"/predict/{name}", raw_http.encoded({"rows": rows}))
            assert answer.status == 200, answer.body
            assert answer.json().get("truncated", []) == cut, name
            assert ("truncated" in answer.json()) == bool(cut), "a client without long texts sees nothing new"
        many = [{"text": LONG if number % 3 == 1 else "犬"} for number in range(200)]
        answer = raw_http.post(address, "/predict/single", raw_http.encoded({"rows": many}))
        assert answer.json()["truncated"] == list(range(1, 200, 3)), "of rows that ran in several batches"
