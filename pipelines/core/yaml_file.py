"""Read and write YAML as plain values; errors say in one sentence what is wrong, and where."""

import re
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import yaml

from pipelines.core.errors import UsageError, shown

MAX_VALUES = 100_000  # with anchors, a few lines can stand for millions
MAX_DEPTH = 30
BOOL = "tag:yaml.org,2002:bool"
FLOAT = "tag:yaml.org,2002:float"
EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")  # a number in YAML 1.2
# scalars that YAML 1.1 (this reader) and YAML 1.2 (DVC, which writes the lock) read as different values
DISPUTED = re.compile(
    r"""(?:[-+]?0o?[0-9_]+ | [-+]_[0-9_.eE+-]*            # octal or decimal; no digit after the sign
        | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?  # base 60
        | [-+]?\.[0-9_]+(?:[eE][-+]?[0-9]+)?            # no digit before the point
        | [-+]?[0-9.]*_[0-9_.]*[eE][-+]?[0-9]+          # an exponent and "_"
        )""",
    re.VERBOSE,
)
SAME = re.compile(r"\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?")  # .5 is 0.5 in both
PLAIN = (str, int, float, bool, type(None), list, dict)


def read(file: Path, hint: str) -> dict[str, Any]:
    """The mapping in `file`: texts, numbers, lists and mappings with texts as keys.

    Raises UsageError for a missing file, with `hint`; for what is not YAML; for a key that occurs twice; for scalars
    that DVC would read as other values; for values of other types; for values that are nested too deep, or too many.
    """
    try:
        values = yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file; {hint}") from None
    except RecursionError:
        raise UsageError(f"{file}: not readable as YAML: nested too deep") from None
    except _RefusedError as error:
        raise UsageError(f"{file}: {error}") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{file}: not readable as YAML: {' '.join(str(error).split())[:300]}") from None
    values = {} if values is None else values
    if not isinstance(values, dict):
        raise UsageError(f"{file}: it must map names to values; it holds {shown(values)}")
    for count, complaint in enumerate(_complaints(values, "", 0)):
        if complaint or count > MAX_VALUES:
            raise UsageError(f"{file}: {complaint or f'more than {MAX_VALUES:,} values'}")
    return values


def _complaints(value: Any, place: str, depth: int) -> Iterator[str]:
    """Sentences about errors in `value` and in each value inside it; "" stands for a value without an error."""
    if depth > MAX_DEPTH:
        yield f"{place[:60]}: nested more than {MAX_DEPTH} deep"
    if not isinstance(value, PLAIN):
        yield f"{place}: {shown(value)} is neither a text nor a number; write it in quotes"
    yield f"{place}: {shown(value)} is too large a number" if isinstance(value, int) and abs(value) >= 2**31 else ""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield f"{place or 'the top'}: the key {shown(key)} is not a text; write it in quotes"
            yield from _complaints(inner, f"{place}.{key}".lstrip("."), depth + 1)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _complaints(inner, f"{place}.{number}", depth + 1)


def dump(value: Any, flow: bool = False, width: int = 10_000) -> str:
    """The YAML of a value, in braces if `flow`; texts that a reader may take for another value stand in quotes."""
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, default_flow_style=flow, width=width)


class _RefusedError(Exception):
    """A repeated key, or a scalar that YAML 1.1 and YAML 1.2 read as different values."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, but a repeated key is an error, and as in YAML 1.2 `off` is a text and 1e-4 a number."""

    yaml_implicit_resolvers: ClassVar = {  # type: ignore[misc]
        first: [resolver for resolver in resolvers if resolver[0] != BOOL]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        plain = isinstance(node, yaml.ScalarNode) and node.style is None  # without quotes
        if plain and DISPUTED.fullmatch(node.value) and not SAME.fullmatch(node.value):
            at = f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"
            raise _RefusedError(
                f"{at}: {shown(node.value)} is one value in YAML 1.1 and another in YAML 1.2, which DVC uses; "
                "write text in quotes, and a number in decimal digits"
            )
        return super().construct_scalar(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                mend = "put these entries below it" if isinstance(value, yaml.MappingNode) else "remove one of them"
                raise _RefusedError(f"line {line}: {shown(key.value)} is there already (line {lines[name]}); {mend}")
            lines[name] = line
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(FLOAT, EXPONENT, list("-+0123456789"))


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which knows the numbers of YAML 1.2 too."""


_Dumper.add_implicit_resolver(FLOAT, EXPONENT, list("-+0123456789"))
_Dumper.add_implicit_resolver(FLOAT, re.compile(f"(?:{DISPUTED.pattern})$", re.VERBOSE), list("-+.0123456789_"))
