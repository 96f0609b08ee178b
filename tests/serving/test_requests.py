"""What the HTTP service refuses before any model sees it."""

import asyncio
import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from pipelines.serving import app, schemas


def refused(body: dict[str, Any]) -> str:
    """What a client is told of the body of its request."""
    with pytest.raises(ValidationError) as found:
        schemas.Request.model_validate(body)
    sent = asyncio.run(app._refused(None, RequestValidationError(found.value.errors())))
    assert sent.status_code == 422
    return str(json.loads(bytes(sent.body))["detail"])


def test_a_request_of_more_work_than_a_minute_s_is_refused() -> None:
    row = {"text": "犬" * schemas.MAX_CHARACTERS}
    assert len(schemas.Request.model_validate({"rows": [row] * 10}).rows) == 10
    assert refused({"rows": [row] * 11}).startswith("the body: 220000 characters in all rows; a request takes at most")
    assert "at most 64" in refused({"rows": [{"choices": ["犬"] * 65}]})


def test_no_text_is_repeated_and_of_an_unknown_key_a_line() -> None:
    assert refused({"rows": [{"txt" * 1000: "x"}]}) == f"rows.0.{('txt' * 14)[:40]}: Extra inputs are not permitted"
    assert refused({"rows": [{"text": 12}]}) == "rows.0.text: Input should be a valid string"
