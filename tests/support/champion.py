"""A champion of the registered model `tiny`, and texts for it to predict."""

from pathlib import Path

from pipelines.export import onnx_export
from pipelines.tracking import ledger, registry
from tests.support import stores, tiny
from tests.support.places import CODE

TEXTS = ["私は犬が好き。", "", "😀", "映画の公開日が決定、監督が語る" * 30, "試合は延長の末に決着した", "a b c"] * 3
EXAMPLE = {"text": "犬"}


def registered(place: Path, exported: bool = False) -> registry.Version:
    """Register a tiny classifier, and promote it; `place` is the working folder, without a store yet."""
    stores.place_in(place)
    folder = tiny.classifier(place / "model")
    onnx = place / "onnx" if exported else None
    if onnx:
        onnx.mkdir()
        onnx_export.export(folder, onnx, 18, 1e-3)
    version = registry.register("tiny", folder, CODE, "single", EXAMPLE, {"run": "tiny"}, onnx)
    ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
    return version
