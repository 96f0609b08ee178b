"""report: write tables and plots of the runs that params.yaml names."""

from pipelines.core import paths, stage
from pipelines.reports import writing


def main() -> None:
    with paths.fresh_folder(paths.reports()) as out:
        writing.write(out)


if __name__ == "__main__":
    stage.run("report", main, entry=False)
