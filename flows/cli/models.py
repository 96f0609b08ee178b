"""The commands of registered models: retrain, promote, roll back, and where a version came from."""

import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli import arguments, completion
from flows.cli.arguments import (
    MODELS,
    REFUSED,
    Name,
    Reason,
    Watched,
    group,
    json_with,
    print_answer,
    require_registered,
    require_version,
)
from flows.cli.panels import DECIDE, MAKE, listed
from flows.local import prefect_settings
from pipelines.core import paths
from pipelines.core.errors import UsageError, printable

cli = group()
EXPORTED = completion.of_sections("export")
DRY = "only measure; the verdict is kept with the version"
REPLAY = "let both answer the stored requests of so many days; say which share would change"
PROMOTED = "model, promoted, changed, would, reasons, champion"
CASCADE = (
    "model, version, threshold, agreement, confidence, rows, differing, by_student, champion, "
    "rows_per_second_of_champion (median, least, greatest)"
)
SERVED = "what this service answers with stays; or BERTLINE_SERVICE names it"
VERSIONS = "a list of objects: version, aliases, commit, run, md5, runtime, passed, approved_by"
CARD = "name, version, kind, labels, data, training, evaluation, approved_by, events, gate, inputs and others"
LINEAGE = "model, version, commit, dirty, verdict, stages, champion, parents; of data: paths, wrote, read, versions"


@cli.command(**listed(MAKE, "bertline retrain headlines"))
def retrain(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="entries of promote, of which what they need is made; everything if none", autocompletion=MODELS
        ),
    ] = None,
    as_json: Annotated[bool, json_with("challengers (a list of model, version)")] = False,
) -> None:
    """Bring the graph up to date and register the challengers."""
    from pipelines.graph import checking, params_findings

    for name in names or []:
        checking.require_entry(name, "promote")
    params_findings.require_form()
    prefect_settings.before_a_flow()
    from flows.retrain import retrain as run

    versions = run(names or None)
    answer = {"challengers": [{"model": version.name, "version": version.version} for version in versions]}
    sentences = "\n".join(f"{version} is the challenger" for version in versions) or "nothing to register"
    print_answer(answer, as_json, lambda _: sentences)


@cli.command(**listed(DECIDE, "bertline cascade headlines headlines-small --rows march.parquet"))
def cascade(
    name: Name,
    student: Annotated[
        str, typer.Argument(help="a run with an export: an entry of export in params.yaml", autocompletion=EXPORTED)
    ],
    rows: Annotated[
        Path | None, typer.Option(help="a Parquet file of rows that neither was trained on; they need no labels")
    ] = None,
    agreement: Annotated[float, typer.Option(help="the share of rows that must get the champion's label")] = 0.995,
    confidence: Annotated[float, typer.Option(help="of that share")] = 0.95,
    champion: Annotated[int | None, typer.Option(min=1, help="a version other than the champion")] = None,
    as_json: Annotated[bool, json_with(CASCADE)] = False,
) -> None:
    """Register a cascade: the student answers the rows of which it is sure, and the champion the others."""
    from pipelines.graph import checking

    checking.require_entry(name, "promote")
    checking.require_entry(student, "export")
    require_version(name, "" if champion is None else str(champion))
    from pipelines.lifecycle import cascades
    from pipelines.measurement.cascade_folder import Goal

    commit = os.environ.get("BERTLINE_COMMIT", "")
    registered = cascades.register(name, student, Goal(agreement, confidence), rows, champion, commit)
    print_answer(registered.facts(), as_json, cascades.plain)


@cli.command(
    **listed(DECIDE, "bertline promote headlines", 'bertline promote headlines --version 3 --reason "the March rows"')
)
def promote(
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="a version other than the challenger")] = None,
    instead_of: Annotated[int | None, typer.Option(help="only if this version is champion now")] = None,
    reason: Reason = "",
    service: Watched = "",
    replay: Annotated[int | None, typer.Option(metavar="DAYS", min=1, max=36_500, help=REPLAY)] = None,
    dry: Annotated[bool, typer.Option("--dry", help=DRY)] = False,
    as_json: Annotated[bool, json_with(PROMOTED)] = False,
) -> None:
    """Compare the challenger with the champion; make it champion if it passes, else end with status 3."""
    answer = _promoted(name, version, instead_of, reason=reason, service=service, replay_days=replay, dry=dry)
    print_answer(answer, as_json, _outcome)
    if not (answer["promoted"] or answer["would"]):
        raise typer.Exit(REFUSED)


def _promoted(name: str, version: int | None, instead_of: int | None, **options: Any) -> dict[str, Any]:
    """The answer; one that the registry's content decides waits neither for MLflow nor for Prefect."""
    from pipelines.graph import checking

    checking.require_entry(name, "promote")
    from pipelines.lifecycle import registry_refusals

    answer = {"model": name, "promoted": False, "changed": False, "would": False}
    if early := registry_refusals.of_promotion(name, version, instead_of):
        return answer | asdict(early)
    outcome = _measured(name, version, instead_of, options)
    champion = outcome.champion.version if outcome.champion else None
    return answer | asdict(outcome) | {"champion": champion}


def _measured(name: str, version: int | None, instead_of: int | None, options: dict[str, Any]) -> Any:
    """The outcome of a promotion; one that needs no measurement does not wait for Prefect."""
    with arguments.importing():
        from pipelines.lifecycle import promotion
    if outcome := promotion.unmeasured(name, version, instead_of):
        return outcome
    prefect_settings.before_a_flow()
    from flows.promote import promote as run

    return run(name, version, instead_of, **options)


def _outcome(answer: dict[str, Any]) -> str:
    name, number = answer["model"], answer["champion"]
    champion = f"{name} version {number} is the champion" if number else f"{name} has no champion"
    would = ["it would become champion"] if answer["would"] else []
    return "\n".join(map(printable, [*answer["reasons"], *would, champion]))


@cli.command(**listed(DECIDE, "bertline rollback headlines", "bertline rollback headlines --to 1"))
def rollback(
    name: Name,
    to: Annotated[int | None, typer.Option(help="a former champion; by default the last one before this")] = None,
    reason: Reason = "",
    service: Watched = "",
    as_json: Annotated[bool, json_with("model, champion")] = False,
) -> None:
    """Make a former champion the champion again, if it still answers."""
    from pipelines.graph import checking

    checking.require_entry(name, "promote")  # it is no flow, and needs no server
    from pipelines.lifecycle import registry_refusals

    registry_refusals.of_rollback(name, to)
    with arguments.importing():
        from flows.rollback import rollback as run

    version = run(name, to, reason, service)
    answer = {"model": version.name, "champion": version.version}
    print_answer(answer, as_json, lambda _: f"{version} is the champion again")


@cli.command(**listed(DECIDE, "bertline history headlines", "bertline history headlines --at 2026-11-23T09:00"))
def history(
    name: Name,
    at: Annotated[str, typer.Option(help="a time, such as 2026-11-23T09:00; UTC unless it names a zone")] = "",
    as_json: Annotated[
        bool,
        json_with(
            "model, champion, events, overtaken, repeated, damage, removals; with --at: model, at, champion, event"
        ),
    ] = False,
) -> None:
    """Print who made which version champion, when and why; with --at, the champion at that time."""
    require_registered(name)
    from pipelines.lifecycle import history as ledger

    record, plain = (ledger.champion_at(name, at), ledger.plain_at) if at else (ledger.history(name), ledger.plain)
    print_answer(record, as_json, plain)


@cli.command(**listed(DECIDE, "bertline versions headlines", "bertline versions headlines --json"))
def versions(name: Name, as_json: Annotated[bool, json_with(VERSIONS)] = False) -> None:
    """Print the registered versions of a model: aliases, commit, the gate's verdict, who approved each."""
    require_registered(name)
    from pipelines.lifecycle import version_list

    print_answer(version_list.listed(name), as_json, version_list.plain)


@cli.command(
    **listed(DECIDE, "bertline approve headlines", 'bertline approve headlines --version 3 --reason "read 50 rows"')
)
def approve(
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="a version other than the challenger")] = None,
    reason: Reason = "",
    as_json: Annotated[bool, json_with("model, version")] = False,
) -> None:
    """Approve a version, by default the challenger, as the rule `approval: true` of the gate asks a person to do."""
    from pipelines.tracking.registry_snapshot import CHALLENGER

    require_version(name, CHALLENGER if version is None else str(version))
    from pipelines.lifecycle import approval

    approved = approval.approve(name, version, reason)
    answer = {"model": approved.name, "version": approved.version}
    print_answer(answer, as_json, lambda _: printable(approval.sentence(approved)))


@cli.command(**listed(DECIDE, "bertline lineage model headlines@champion", "bertline lineage data 8e5f6fd8"))
def lineage(
    what: Annotated[Literal["model", "data"], typer.Argument(help="a model, or data")],
    which: Annotated[
        str,
        typer.Argument(
            help="NAME@champion or NAME@3; or an md5 from dvc.lock, or its first digits",
            autocompletion=completion.versions,
        ),
    ],
    as_json: Annotated[bool, json_with(LINEAGE)] = False,
    page: Annotated[
        Path | None, typer.Option(help="write a page with a picture to this file; only for a model")
    ] = None,
) -> None:
    """Print what a registered version was made of, or which versions were made of some data."""
    if what == "model" and (version := re.fullmatch(r"([\w.-]+)(?:@(\w+)|/(\d+))", which)):
        require_version(version[1], version[2] or version[3])
    from pipelines.lifecycle import lineage as of

    lineage = of.of_model(which) if what == "model" else of.of_data(which)
    if page:
        if what == "data":
            raise UsageError("--page is for `bertline lineage model`")
        with paths.fresh_file(page) as aside:
            aside.write_text(of.page_of_model(lineage), encoding="utf-8")
    plain = of.plain_model if what == "model" else of.plain_data
    print_answer(lineage, as_json, plain)


@cli.command(**listed(DECIDE, "bertline card headlines", "bertline card headlines@champion"))
def card(
    which: Annotated[
        str,
        typer.Argument(
            metavar="RUN_OR_MODEL",
            help="a run, or a registered model as NAME, NAME@champion or NAME@3",
            autocompletion=completion.served,
        ),
    ],
    as_json: Annotated[bool, json_with(CARD)] = False,
) -> None:
    """Print a model card in Markdown: data, training, scores beside the baseline, limits, who decided.

    All of it is read from the files of this checkout and the registry; Hugging Face reads its metadata. NAME alone is
    a run that is here, else the champion of this name.
    """
    from pipelines.lifecycle import model_card
    from pipelines.reports import model_card_text

    name, label = model_card.parsed(which)
    if label:
        require_version(name, label)
        from pipelines.lifecycle import version_card

        facts = version_card.of_version(name, label)
    else:
        facts = model_card.of_run(name)
    print_answer(facts, as_json, model_card_text.markdown)


@cli.command(**listed(DECIDE, "bertline prune headlines --keep 3", "bertline prune headlines --keep 3 --yes"))
def prune(
    name: Name,
    keep: Annotated[int, typer.Option(min=1, help="how many of the last champions stay")] = 3,
    service: Annotated[str, typer.Option(metavar="URL", help=SERVED)] = "",
    remove: Annotated[bool, typer.Option("--yes", help="remove them; without it they are only named")] = False,
    as_json: Annotated[bool, json_with("model, would, removed, bytes, stays (the reasons for each version)")] = False,
) -> None:
    """Remove old versions. The last champions, versions with an alias, and what a service answers with stay."""
    require_registered(name)
    from flows.local.watched_service import watched
    from pipelines.lifecycle import pruning

    plan = pruning.planned(name, keep, watched(service))
    print_answer(pruning.prune(plan, remove), as_json, pruning.plain)
