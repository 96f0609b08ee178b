"""tune: search for better params of one finetune entry; an interrupted search goes on."""

from prefect import flow, task

from pipelines.reports import tuning_page
from pipelines.search import param_search

trial = task(param_search.trial)


@flow(name="tune")
def tune(run: str) -> tuning_page.Trials:
    """Run the trials that tune.<run> of params.yaml asks for; writes a table and a plot of them."""
    return param_search.search(run, trial)
