"""The commit of the code that runs, as receipts name it."""

import os


def current() -> str:
    """The commit of the checkout, with `-dirty` if its code or params were edited; else that of the image, or ""."""
    from pipelines.lifecycle import registration

    facts = registration.git_commit(os.environ.get("BERTLINE_COMMIT", ""))
    return facts.get("git_commit", "") + (registration.DIRTY if facts.get("git_dirty") == "true" else "")
