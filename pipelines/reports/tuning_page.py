"""The trials of a search as a table and as a plot."""

from dataclasses import dataclass
from html import escape
from typing import Any

from pipelines.core import yaml_file
from pipelines.reports import page, plots, run_tables


@dataclass(frozen=True)
class Trials:
    """The trials for one run, in the order in which they ran."""

    run: str
    metric: str
    split: str  # the split that was scored
    tried: list[tuple[dict[str, Any], float]]  # params, score

    @property
    def names(self) -> list[str]:
        return list(self.tried[0][0])

    @property
    def header(self) -> tuple[str, ...]:
        return ("trial", *self.names, self.metric)

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """The cells of each trial, the best first."""
        ranked = sorted(enumerate(self.tried, start=1), key=lambda trial: -trial[1][1])
        return [
            (str(number), *(_cell(values[name]) for name in self.names), f"{score:.4f}")
            for number, (values, score) in ranked
        ]


def best(trials: Trials) -> str:
    """The params of the best trial as lines of YAML."""
    values, _ = max(trials.tried, key=lambda trial: trial[1])
    return yaml_file.dump(values, width=80)


def answer(trials: Trials) -> dict[str, Any]:
    """The trials for a program, in the order in which they ran."""
    tried = [{"params": values, "score": score} for values, score in trials.tried]
    best_params = max(trials.tried, key=lambda trial: trial[1])[0]
    return {"run": trials.run, "metric": trials.metric, "split": trials.split, "trials": tried, "best": best_params}


def plain(trials: Trials) -> str:
    return run_tables.aligned([trials.header, *trials.lines], text=0)


def markdown(trials: Trials) -> str:
    return run_tables.pipes([trials.header, *trials.lines], text=0)


def html(trials: Trials) -> str:
    """A page with the plot, the table and the best params."""
    axes = {name: [values[name] for values, _ in trials.tried] for name in trials.names}
    picture = plots.parallel_coordinates(axes, [score for _, score in trials.tried], trials.metric)
    says = f"One line for each trial; {trials.metric} on {trials.split}"
    body = (
        f"<h1>tune {escape(trials.run)}</h1>\n<figure>{picture}<figcaption>{escape(says)}</figcaption></figure>\n"
        f"{page.table(trials.header, trials.lines, text=0)}<pre>{escape(best(trials))}</pre>\n"
    )
    return page.document(f"tune {trials.run}", body)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
