"""Values that fit a JSON schema, and values that almost do, for property tests against an OpenAPI document."""

from typing import Any

from hypothesis import strategies as st

Schema = dict[str, Any]
TEXTS = st.text(max_size=12) | st.sampled_from(["犬", "[MASK]", "私は[MASK]が好き", "", "\x00", "😀" * 30])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def fitting(schema: Schema, known: dict[str, Schema]) -> st.SearchStrategy[Any]:
    """Values that fit a schema; `known` are those of the document's components."""
    if "$ref" in schema:
        return st.deferred(lambda: fitting(known[schema["$ref"].rpartition("/")[2]], known))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([fitting(one, known) for one in schema["anyOf"]])
    if schema.get("examples"):
        return st.sampled_from(schema["examples"]) | _of_type(schema, known)
    return _of_type(schema, known)


def _of_type(schema: Schema, known: dict[str, Schema]) -> st.SearchStrategy[Any]:
    kind = schema.get("type")
    if kind == "object":
        parts = {name: fitting(part, known) for name, part in schema.get("properties", {}).items()}
        needed = set(schema.get("required", []))
        must = {name: part for name, part in parts.items() if name in needed}
        may = {name: part for name, part in parts.items() if name not in needed}
        return st.fixed_dictionaries(must, optional=may)
    if kind == "array":
        return st.lists(
            fitting(schema.get("items", {}), known),
            min_size=schema.get("minItems", 0),
            max_size=max(2, schema.get("minItems", 0)),
        )
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", -(2**40)), schema.get("maximum", 2**40)
        return st.integers(low, high)
    return {"string": TEXTS, "boolean": st.booleans(), "null": st.none()}.get(kind or "", ANYTHING)


@st.composite
def mutated(draw: st.DrawFn, whole: st.SearchStrategy[Any]) -> Any:
    """A value with one part of it replaced, removed or added."""
    value = draw(whole)
    return _changed(draw, value)


def _changed(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(value)))
        return value | {name: _changed(draw, value[name])}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], _changed(draw, value[place]), *value[place + 1 :]]
    if isinstance(value, dict) and draw(st.booleans()):
        extra = {draw(TEXTS): draw(ANYTHING)}
        return value | extra if not value or draw(st.booleans()) else dict(list(value.items())[1:])
    return draw(ANYTHING)
