"""What DVC draws is what the metrics files hold."""

from pathlib import Path

from pipelines.reports import dvc_plots
from tests.support.records import record


def test_a_run_has_a_file_for_each_picture_that_its_kind_has(tmp_path: Path) -> None:
    run = record("full", 0.5, curve=[[1, {"loss": 2.5}], [2, {"mlm_loss": 1.0}], [3, {"loss": 0.5}]])
    tagger = record("tagger", 0.5)
    del tagger["confusion"], tagger["calibration"]
    dvc_plots.write(tmp_path / "plots", [run, tagger], [{"run": "encoder", "curve": [[4, {"loss": 1.5}]]}])
    written = {str(file.relative_to(tmp_path / "plots")) for file in tmp_path.rglob("*.csv")}
    assert written == {"confusion/full.csv", "calibration/full.csv", "losses/full.csv", "losses/encoder.csv"}
    confusion = (tmp_path / "plots/confusion/full.csv").read_text().splitlines()
    assert confusion == ["actual,predicted,rows", "犬,犬,5", "犬,<b>,1", "<b>,犬,2", "<b>,<b>,4"]
    assert (tmp_path / "plots/calibration/full.csv").read_text() == "confidence,accuracy,rows\n0.7,0.5,12\n"
    assert (tmp_path / "plots/losses/full.csv").read_text() == "step,loss\n1,2.5\n3,0.5\n"
