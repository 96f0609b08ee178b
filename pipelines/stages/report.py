"""report: tables and plots of the runs that params.yaml names."""

import json

from pipelines.core import params, paths, stage
from pipelines.core.errors import InputError
from pipelines.reports import page, tables


def main(key: str = "all") -> None:
    checked = params.check()
    runs = [*checked["evaluate"], *checked["floor"]]
    missing = [run for run in (*runs, *checked["pretrain"]) if not paths.metrics(run).is_file()]
    if missing or not (runs or checked["pretrain"]):
        raise InputError(
            f"{paths.metrics(missing[0]) if missing else 'params.yaml'}: no metrics to report; evaluate and pretrain write them"
        )
    records = [json.loads(paths.metrics(run).read_text(encoding="utf-8")) for run in runs]
    pretrained = [json.loads(paths.metrics(run).read_text(encoding="utf-8")) for run in checked["pretrain"]]
    files = {record["task"]: paths.rows(record["task"]) / "quality.json" for record in records}
    qualities = {task: json.loads(file.read_text(encoding="utf-8")) for task, file in files.items() if file.is_file()}
    with paths.fresh_folder(paths.reports()) as out:
        (out / "index.html").write_text(page.html(records, qualities, pretrained), encoding="utf-8")
        (out / "table.md").write_text(tables.markdown(records), encoding="utf-8")
        (out / "table.txt").write_text(tables.plain(records) + "\n", encoding="utf-8")


if __name__ == "__main__":
    stage.run("report", main)
