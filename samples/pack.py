"""Pack samples/livedoor/*.tsv into an archive laid out as the livedoor news corpus, the same bytes every time."""

import gzip
import io
import tarfile
from pathlib import Path

HERE = Path(__file__).parent / "livedoor"
ARCHIVE = HERE / "ldcc-samples.tar.gz"
NOTE = "These articles were written for bertline; they are samples and no part of the livedoor news corpus.\n"


def articles() -> dict[str, str]:
    """The archive's member names and their contents: an address, a time, a title, then the body."""
    found = {"text/README.txt": NOTE}
    for table in sorted(HERE.glob("*.tsv")):
        category = table.stem
        found[f"text/{category}/LICENSE.txt"] = NOTE
        lines = table.read_text(encoding="utf-8").splitlines()[1:]
        for number, line in enumerate(lines, start=1):
            title, body = line.split("\t")
            name = f"{category}-{number:04d}"
            found[f"text/{category}/{name}.txt"] = (
                f"https://example.invalid/{name}/\n2012-01-01T00:00:00+0900\n{title}\n{body}\n"
            )
    return found


def packed() -> bytes:
    """The archive's bytes; they hold no time, no owner and not the archive's own name."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in sorted(articles().items()):
            member = tarfile.TarInfo(name)
            content = text.encode()
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


if __name__ == "__main__":
    ARCHIVE.write_bytes(packed())
