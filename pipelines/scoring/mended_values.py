"""Mended values: those of a file of JSON lines, as columns of a partition's answers take them."""

from typing import Any

import pyarrow as pa

from pipelines.core.errors import choices, shown


def fitted(value: Any, kind: pa.DataType) -> Any:
    """The value, with texts of times (ISO 8601) and decimals read, as Arrow takes it for a column of type `kind`.

    Raises ValueError for one that Arrow would change without an error: it divides a text into a list of letters,
    leaves keys out that a struct does not have, and cuts decimals off. An Arrow scalar stays as it is.
    """
    if isinstance(value, pa.Scalar):
        return value if value.is_valid else None
    if pa.types.is_dictionary(kind):
        return fitted(value, kind.value_type)
    if isinstance(value, dict):
        return _mapping(value, kind)
    if _is_list(kind) and value is not None:
        if not isinstance(value, list):
            raise ValueError(f"{shown(value)} does not fit {kind}")
        return [fitted(inner, kind.value_type) for inner in value]
    if isinstance(value, str):
        return _read(value, kind)
    if isinstance(value, float) and pa.types.is_decimal(kind):
        return _read(str(value), kind)
    whole = pa.types.is_integer(kind) or pa.types.is_temporal(kind)
    if whole and isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{shown(value)} does not fit {kind}")
    return value


def _mapping(value: dict[str, Any], kind: pa.DataType) -> Any:
    """An object of JSON, for a struct or a map."""
    if pa.types.is_map(kind):
        return [(key, fitted(inner, kind.item_type)) for key, inner in value.items()]
    if not pa.types.is_struct(kind):
        return value
    types = {field.name: field.type for field in kind}
    for name in value:
        if name not in types:
            raise ValueError(choices("key", name, list(types)))
    return {name: fitted(inner, types[name]) for name, inner in value.items()}


def _is_list(kind: pa.DataType) -> bool:
    large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    return large or pa.types.is_list(kind) or pa.types.is_list_view(kind) or pa.types.is_fixed_size_list(kind)


def _read(text: str, kind: pa.DataType) -> Any:
    """The time, date or number that a text has, if the column is of these; else the text."""
    if pa.types.is_time(kind):  # Arrow reads no times of day alone
        return pa.scalar(f"1970-01-01T{text}").cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return pa.scalar(text, pa.string()).cast(kind)
    return text
