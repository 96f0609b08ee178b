"""What rows of each kind become as ids; `for_kind` names the module."""

from types import ModuleType

from pipelines.core.errors import UsageError, choices


def for_kind(kind: str) -> ModuleType:
    """The module whose `encode` takes rows of `kind`."""
    from pipelines.text.encoding import choice, document, matched, sequence, span, tagging

    modules = dict.fromkeys(("single", "pair", "regression"), sequence)
    modules |= {"span": span, "tagging": tagging, "choice": choice, "text": document, "matched": matched}
    if kind not in modules:
        raise UsageError(choices("kind", kind, modules))
    return modules[kind]
