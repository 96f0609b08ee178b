"""The commands that verify answers, and the one that makes the keys of their receipts."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.arguments import group, json_with, print_answer
from flows.cli.panels import SERVE, listed
from pipelines.core.errors import printable

cli = group()


@cli.command(
    **listed(
        SERVE,
        "bertline verify scored/",
        "bertline verify scored/ --keys receipts.key --replay",
        "bertline verify answers.parquet --keys receipts.key",
    )
)
def verify(
    target: Annotated[str, typer.Argument(help="the folder of a scoring job; with --keys or --replay any Parquet")],
    keys: Annotated[Path | None, typer.Option(help="a file of keys: check the receipt of every row")] = None,
    replay: Annotated[bool, typer.Option("--replay", help="predict again by the versions that rows name")] = False,
    prefix: Annotated[
        str | None, typer.Option(help="of the answers whose receipts to check; others in the files may lack receipts")
    ] = None,
    as_json: Annotated[
        bool, json_with("ok, findings; also of a job: inputs_compared, summary; also if checked: receipts, replayed")
    ] = False,
) -> None:
    """Prove from files of answers that no row is lost, doubled or changed; name every row that was touched."""
    from pipelines.scoring import verification

    result = verification.verify(target, keys, replay, prefix)
    print_answer(result.answer(), as_json, lambda _: printable(result.plain(), keep="\n"))
    if not result.ok:
        raise typer.Exit(1)


@cli.command("receipt-key", **listed(SERVE, "bertline receipt-key receipts.key"))
def receipt_key(
    file: Annotated[Path, typer.Argument(help="the file of keys, made for you alone where there is none")],
    name: Annotated[str, typer.Argument(help="of the key; by default key-1, key-2 and so on")] = "",
    as_json: Annotated[bool, json_with("file, key (not the secret)")] = False,
) -> None:
    """Add a key to a file; it signs receipts from now on, and the older ones verify theirs."""
    from pipelines.inference import receipt_keys

    key = receipt_keys.make(file, name)
    sentence = printable(f"{file}: {key.id} signs receipts from now on")
    print_answer({"file": str(file), "key": key.id}, as_json, lambda _: sentence)
