"""export: write a model as ONNX and check that it agrees with torch."""

from pipelines.core import params, paths, provenance, stage
from pipelines.core.progress import say
from pipelines.entries.export import Export


def main(key: str) -> None:
    entry = params.entry("export", key, Export)
    from pipelines.export import onnx_export

    folder = paths.model(key)
    with paths.fresh_folder(paths.onnx(key)) as out:
        difference = onnx_export.export(folder, out, entry.opset, entry.tolerance)
        say(f"export {key}: torch and ONNX differ by {difference:.1e} in a {onnx_export.measured(folder)}")
        provenance.write(out, "export", entry.model_dump(), [folder], ("onnx", "onnxruntime", "torch"))


if __name__ == "__main__":
    stage.run("export", main)
