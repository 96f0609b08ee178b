"""The secrets in addresses: user names and passwords, which no message, log or other machine gets."""

import re

# such as `user:password@`; a database's password may hold what ends an address elsewhere, as SQLAlchemy reads it
_IN_TEXT = re.compile(r"(?<=://)(?:(?<!http://)(?<!https://)[^/:\s]*:\S*|[^/\s]+)@")
_WHOLE = re.compile(r"(?<=://)(?:(?<!http://)(?<!https://)[^/:]*:.*|[^/]+)@", re.DOTALL)
_IN_QUERY = re.compile(r"([?&][^=&\s]*(?:pass|pwd|secret|token|key|credential|odbc)[^=&\s]*=)[^&\s]+", re.IGNORECASE)


def without_passwords(text: str, address: str = "") -> str:
    """`text` without the user names and passwords in its addresses.

    `address` is one that `text` may hold; it is known where this one ends, so its password may have a space.
    """
    if address:
        text = text.replace(address, _WHOLE.sub("", address))
    return _IN_QUERY.sub(r"\1...", _IN_TEXT.sub("", text))


def may_be_sent(address: str) -> bool:
    """Return whether an address has neither user info nor a query, which may hold a password."""
    return "?" not in address and not _WHOLE.search(address)
