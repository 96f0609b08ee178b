"""report: write tables and plots of the runs that params.yaml names."""

from pipelines.core import params, paths, stage
from pipelines.reports import report_folder


def main() -> None:
    with paths.fresh_folder(paths.reports()) as out:
        report_folder.write(out, params.read())


if __name__ == "__main__":
    stage.run("report", main, entry=False)
