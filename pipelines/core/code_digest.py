"""The digest of the code of a stage, by which state that outlives a process is not read by other code."""

import hashlib

from pipelines.core import paths


def of(stage: str, plugin: str = "") -> str:
    """The digest of the manifests of a stage and of its plugin, such as `methods/pkd`.

    A manifest is the same if only comments changed. Without manifests, as outside of a graph, the digest is empty.
    """
    manifests = [paths.CODE / f"{name}.txt" for name in (f"stages/{stage}", plugin) if name]
    texts = [file.read_bytes() for file in manifests if file.is_file()]
    return hashlib.sha256(b"".join(texts)).hexdigest() if texts else ""
