"""Check the JSON of a request against a schema, and name what is wrong without repeating it."""

import codecs
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pipelines.core.errors import InputError, choices

MAX_KEY = 40  # the most characters of a key in an error, since the key may be long
NO_JSON = "the body is not JSON in UTF-8"


class Strict(BaseModel):
    """A schema that converts no types, and refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True)


Schema = TypeVar("Schema", bound=BaseModel)


def read(schema: type[Schema], body: bytes) -> Schema:
    """The request in a body of JSON. Raises InputError."""
    try:
        return validated(schema, body)
    except ValidationError as error:
        raise _problem(schema, error, "") from None


def validated(schema: type[Schema], body: bytes) -> Schema:
    """The request in a body of JSON, which may begin with a byte order mark.

    Raises ValidationError; or InputError if the body is not UTF-8, as pydantic says so in other words.
    """
    try:
        return schema.model_validate_json(without_mark(body))
    except ValidationError:
        try:
            body.decode()
        except UnicodeDecodeError:
            raise InputError(NO_JSON) from None
        raise


def without_mark(body: bytes) -> bytes:
    """A body without the byte order mark of UTF-8, with which some programs begin a text."""
    return body.removeprefix(codecs.BOM_UTF8)


def checked(schema: type[Schema], values: dict[str, Any], place: str) -> Schema:
    """The values at `place` of a body. A value of null counts as absent. Raises InputError."""
    try:
        return schema.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise _problem(schema, error, f"{place}: ") from None


def sentence(error: ValidationError) -> str:
    """The first mistake: its place and what is expected there, but not the input, which may be private or large."""
    first, place = _first(error)
    return f"{place or 'the body'}: {first['msg']}"


def _first(error: ValidationError) -> tuple[Any, str]:
    """The first of pydantic's errors, and its place."""
    first = error.errors(include_url=False, include_input=False)[0]
    return first, ".".join(str(part)[:MAX_KEY] for part in first["loc"])


def _problem(schema: type[BaseModel], error: ValidationError, where: str) -> InputError:
    """The error for the first mistake, with the known keys for an unknown one."""
    first, place = _first(error)
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
        return InputError(f"{where}{choices('key', place, schema.model_fields)}")
    message = first["msg"].removeprefix("Value error, ")
    return InputError(f"{where}{place or 'the body'}: {message[0].lower()}{message[1:]}")
