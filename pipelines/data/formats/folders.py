"""Read the texts of a folder: one per file, with or without a folder for each label."""

from collections.abc import Iterator
from pathlib import Path

from pipelines.core.errors import InputError, UnreadableError
from pipelines.data.formats.records import MAX_LINE_BYTES, Place, Record


def files(folder: Path, labelled: bool) -> list[Path]:
    """The *.txt files: <label>/<file>.txt if `labelled`, else all below `folder`. Names that begin with a dot are none.

    Notebooks and macOS leave copies under such names.
    """
    return [file for file in _visible(folder, "*/*" if labelled else "**/*") if file.suffix.lower() == ".txt"]


def unread(folder: Path) -> list[Path]:
    """The files below a folder of labels that are no texts of it, by their paths in it."""
    texts = {*files(folder, labelled=True)}
    return [file.relative_to(folder) for file in _visible(folder, "**/*") if file.is_file() and file not in texts]


def _visible(folder: Path, pattern: str) -> list[Path]:
    """The files and folders whose names, and those of the folders around them, do not begin with a dot."""
    return sorted(
        file
        for file in folder.glob(pattern)
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )


def documents(folder: Path, labelled: bool, encoding: str = "utf-8-sig") -> Iterator[tuple[Place, Record]]:
    """A row for each *.txt file: kind `single` from <label>/<file>.txt if `labelled`, else kind `text`."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    for file in files(folder, labelled):
        place = str(file.relative_to(folder))
        if file.is_symlink() or file.parent.is_symlink() or not file.is_file():
            raise InputError(f"{file}: a link, a folder or a device; a folder of texts holds plain files")
        if file.stat().st_size > MAX_LINE_BYTES:
            raise InputError(f"{file}: larger than {MAX_LINE_BYTES >> 20} MiB; is this one text?")
        try:
            text = file.read_text(encoding=encoding).strip()
        except UnicodeDecodeError as error:
            name = "UTF-8" if encoding == "utf-8-sig" else encoding
            raise UnreadableError(file, f"{file}: byte {error.start}", name) from None
        row = {"id": place.removesuffix(".txt"), "text": text}
        yield place, {**row, "label": file.parent.name} if labelled else row
