"""A champion of the registered model `tiny`, and texts for it to predict."""

from pathlib import Path

from pipelines.tracking import ledger, registry
from tests.support import once, stores, tiny
from tests.support.places import CODE

TEXTS = ["私は犬が好き。", "", "😀", "映画の公開日が決定、監督が語る" * 30, "試合は延長の末に決着した", "a b c"] * 3
EXAMPLE = {"text": "犬"}


def registered(place: Path, made: Path | None = None) -> registry.Version:
    """Register a tiny classifier, and promote it; `place` is the working folder, without a store yet.

    With the folder of `exported.classifier` for `made`, the version has an export.
    """
    stores.place_in(place)
    if made:
        folder, onnx = once.copied(made / "model", place / "model"), once.copied(made / "onnx", place / "onnx")
        version = registry.register("tiny", folder, CODE, "single", EXAMPLE, {"run": "tiny"}, onnx)
    else:
        version = registry.register("tiny", tiny.classifier(place / "model"), CODE, "single", EXAMPLE, {"run": "tiny"})
    ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
    return version
