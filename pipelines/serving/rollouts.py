"""Begin and end canaries and shadows of served models: by requests, or when the service starts."""

from collections.abc import Iterable

from pipelines.core.errors import InputError, UsageError, choices, one_line
from pipelines.core.progress import say
from pipelines.serving.catalogue import Catalogue, UnknownModelError
from pipelines.serving.model_sources import Source
from pipelines.serving.refused_versions import RefusedVersion
from pipelines.serving.side_versions import CHOSEN_BY, RANDOM, Canary, Shadow

CANARY_SHARE, SHADOW_SHARE = 0.05, 1.0  # of the requests, by default


def put_canary(catalogue: Catalogue, name: str, source: Source, share: float = CANARY_SHARE, by: str = RANDOM) -> None:
    """Let a version answer this share of the requests for `name`, in place of the last canary.

    Args:
        by: `random`, or `key`: an API key always meets the canary or never does.

    Raises InputError if the version cannot be opened, or takes other rows.
    """
    if by not in CHOSEN_BY:
        raise InputError(f"by: {choices('choice', by, CHOSEN_BY)}")
    _require_share(share)
    model, refuse = catalogue.open_beside(name, source)

    def end(canary: Canary, cause: str, lasting: bool) -> None:
        refuse(cause, lasting)
        try:
            current = catalogue[name]
        except UnknownModelError:  # it was removed while the canary answered
            return
        if current.canary is canary:
            catalogue.change(name, canary=None)
        catalogue.ended[name] = RefusedVersion(model.version.version, f"it {cause}")
        catalogue.swaps[name, "canary_ended"] += 1
        say(f"{current.version} answers all requests for {name} again: {model.version} {cause}")

    catalogue.ended.pop(name, None)
    catalogue.change(name, canary=Canary(model, share, by, catalogue.conditions.max_slowdown, end))
    say(f"{model.version} answers {share:.1%} of the requests for {name}")


def put_shadow(catalogue: Catalogue, name: str, source: Source, share: float = SHADOW_SHARE) -> None:
    """Let a version read this share of the requests for `name`, in place of the last shadow.

    Raises InputError if the version cannot be opened, or takes other rows.
    """
    _require_share(share)
    model, _ = catalogue.open_beside(name, source)
    catalogue.change(name, shadow=Shadow(model, share, catalogue.disagreements))
    say(f"{model.version} reads {share:.1%} of the requests for {name}")


def remove(catalogue: Catalogue, name: str, what: str) -> None:
    """End the `canary` or the `shadow` of a model. Raises InputError if it has none."""
    if not getattr(catalogue[name], what):
        raise InputError(f"{name} has no {what}")
    catalogue.change(name, **{what: None})


def settle(
    catalogue: Catalogue, served: dict[str, Source], canaries: Iterable[str], shadows: Iterable[str], runtime: str = ""
) -> None:
    """Let a replica have the canaries and shadows of its service's config, and no others.

    One that cannot be opened is named, and the service goes on without it.

    Args:
        canaries, shadows: texts as for `parsed`. Each names a version by its number: an alias may move between the
            starts of two replicas.

    Raises:
        UsageError: a text names no served model, no number or no share.
    """
    for what, put, texts, share in (
        ("canary", put_canary, canaries, CANARY_SHARE),
        ("shadow", put_shadow, shadows, SHADOW_SHARE),
    ):
        wanted = parsed(texts, served, runtime, share)
        for name in served:
            if name not in wanted:
                catalogue.change(name, **{what: None})
                continue
            source, part = wanted[name]
            if not source.alias.isdecimal():
                raise UsageError(f"{what}: {source} is an alias; replicas need the number of a version")
            side = getattr(catalogue[name], what)
            if side and (side.model.version.version, side.share) == (int(source.alias), part):
                continue
            catalogue.change(name, **{what: None})
            try:
                put(catalogue, name, source, part)
            except InputError as error:
                say(f"{name} has no {what}: {one_line(error)}")


def parsed(
    texts: Iterable[str], served: dict[str, Source], runtime: str, share: float
) -> dict[str, tuple[Source, float]]:
    """The versions and shares of texts `SOURCE` or `SOURCE:SHARE`, such as `headlines@4:0.05`, by the name beside.

    Raises UsageError for a share that is no number, and for a model that is not served once.
    """
    beside: dict[str, tuple[Source, float]] = {}
    for text in texts:
        name, _, number = text.partition(":")
        source = Source.parse(name, runtime)
        try:
            part = float(number) if number else share
        except ValueError:
            raise UsageError(f"{text}: {number!r} is not a share, such as 0.05") from None
        names = [other for other, its in served.items() if not its.folder and its.model == source.model]
        if not names:
            raise UsageError(f"{text}: {choices('served model', source.model, served)}")
        if len(names) > 1 or names[0] in beside:
            raise UsageError(f"{text}: one version stands beside one served model; start the other by a request")
        beside[names[0]] = source, part
    return beside


def _require_share(share: float) -> None:
    if not 0 < share <= 1:
        raise InputError(f"share: {share:g} is not above 0 and at most 1")
