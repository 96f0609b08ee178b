"""The one way to write a value as JSON: equal values give equal bytes, and so equal digests."""

import json
from typing import Any


def canonical(value: Any) -> bytes:
    """JSON with sorted keys, without spaces, in UTF-8; numbers as Python writes them, so that their bits come back."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
