"""The keys of a corpus of your own: its files, their form, their columns, labels and splits."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from pipelines.core.errors import choices, shown
from pipelines.core.schema import ROWS
from pipelines.core.section import Name, Section, Switch
from pipelines.data.formats import encodings

KINDS_OF = {  # option -> the kinds of rows that use it
    "choice_columns": ("choice",),
    "labels": ("single", "pair", "tagging", "choice"),
    "label_names": ("single", "pair", "tagging", "choice"),
    "unanswerable": ("span",),
    "normalization": ("span",),
    "units": ("tagging",),
}
FORMATS = {"squad": ("span",), "conll": ("tagging",), "folder": ("single", "text")}  # format -> its kinds
OF_TABLES = (
    "columns",
    "choice_columns",
    "label_names",
    "where",
    "delimiter",
    "sheet",
)  # options of tables, not of the other formats
WAYS = ("share", "group", "time")  # of choosing the rows of a split


def _encoding(name: str) -> str:
    if not encodings.known(name):
        raise ValueError(f"no encoding {shown(name)}; common ones are utf-8, utf-16, cp932, euc-jp, cp1252")
    return name


class Labels(Section):
    """The labels of the task, and what becomes of those in the files."""

    names: list[str] = []  # in the order of their ids; empty: the labels of the split `first`, sorted
    rename: dict[str, str] = {}  # label in the files -> label of the task
    strip: Switch = True  # whether spaces around a label are taken away


class Split(Section):
    """The splits that are made of the rows of `train`; a row's split does not depend on the order of the rows.

    Rows with equal or similar texts come into the same split. Shares are of the rows of each label.
    """

    test: Annotated[float, Field(ge=0, lt=1)] = 0.2
    dev: Annotated[float, Field(ge=0, lt=1)] = 0.0
    # share: by chance; group COLUMN: rows with the same value stay together; time COLUMN: the latest rows are the test
    by: str = "share"
    seed: Annotated[int, Field(ge=0)] = 1

    @property
    def made(self) -> tuple[str, ...]:
        """The names of the splits that it makes beside train."""
        return tuple(name for name, share in (("dev", self.dev), ("test", self.test)) if share)

    @property
    def way(self) -> str:
        return self.by.partition(" ")[0]

    @property
    def column(self) -> str:
        """The column of the files that `by` names; "" for shares."""
        return self.by.partition(" ")[2].strip()

    @model_validator(mode="after")
    def _possible(self) -> "Split":
        if not 0 < self.test + self.dev < 1:
            raise ValueError(f"test and dev are {self.test + self.dev:g} of the rows; a part below 1 is expected")
        if self.way not in WAYS or (self.way == "share") == bool(self.column):
            raise ValueError(f"by: {shown(self.by)}; write share, group COLUMN or time COLUMN")
        return self


class Params(Section):
    """The content of the files. `columns` maps our names (text, text_pair, label, id, ...) to those in the files."""

    kind: Literal["single", "pair", "regression", "span", "tagging", "choice", "text", "positive_pair"] = "single"
    # split -> file below `source`; "" if `source` is the file
    files: Annotated[dict[Name, str], Field(min_length=1)] = {"train": ""}
    format: Literal["", "csv", "tsv", "jsonl", "json", "parquet", "xlsx", "squad", "conll", "folder"] = (
        ""  # "": from the file's suffix
    )
    encoding: Annotated[str, AfterValidator(_encoding)] = "utf-8"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","  # of CSV
    sheet: str = ""  # of a workbook (xlsx); empty: the first one with rows
    columns: dict[str, str] = {}
    where: dict[Name, dict[str, str | int | bool]] = {}  # split -> {column of its file: value of the rows to take}
    choice_columns: list[str] = []  # kind choice: the columns of the choices, if there is one per choice
    split: Split | None = None  # the splits to make of `train`, if there are no files for them
    labels: list[str] | Labels = []  # the names alone, or with `rename` and `strip`
    label_names: dict[str, str] = {}  # the same as `rename` of labels
    leave_out: list[Literal["empty", "unlabelled", "broken"]] = []  # rows to leave out, which are told; else errors
    metric: str = ""  # empty: the kind's default
    language: str = ""
    unanswerable: Switch = False  # kind span: whether some questions have no answer in their context
    normalization: Literal["", "squad", "nfkc", "jglue", "jaquad"] = ""  # kind span: how answers are compared
    units: Literal["words", "characters"] = "words"  # kind tagging: units that carry a tag

    @property
    def first(self) -> str:
        """The split that defines the labels: train, or the first one if there is no train."""
        return "train" if "train" in self.files else next(iter(self.files))

    @property
    def label_order(self) -> list[str]:
        """The labels that are listed, in the order of their ids; empty if they come from the rows."""
        return self.labels.names if isinstance(self.labels, Labels) else self.labels

    @property
    def renamed(self) -> dict[str, str]:
        """Label in the files -> label of the task."""
        return self.labels.rename if isinstance(self.labels, Labels) and self.labels.rename else self.label_names

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits with a file, and those that are made of train."""
        return (*self.files, *(self.split.made if self.split else ()))

    @model_validator(mode="after")
    def _useful(self) -> "Params":
        """Raise ValueError for options that have no effect, and for unknown columns, splits and repeated labels."""
        for option in sorted(self.model_fields_set & KINDS_OF.keys()):
            if self.kind not in KINDS_OF[option]:
                raise ValueError(f"{option}: has no effect on rows of kind {self.kind}; remove it")
        for option in sorted(self.model_fields_set & {*OF_TABLES}) if self.format in FORMATS else []:
            raise ValueError(f"{option}: the format {self.format} has no columns")
        for name in self.columns:
            if name not in ROWS[self.kind].names:
                raise ValueError(f"columns: {choices('column', name, ROWS[self.kind].names)}")
        for split in self.where:
            if split not in self.files:
                raise ValueError(f"where: {choices('split', split, self.files)}")
        if len(set(self.label_order)) < len(self.label_order) or "" in self.label_order:
            raise ValueError("labels: one of them is empty or occurs twice")
        if isinstance(self.labels, Labels) and self.labels.rename and self.label_names:
            raise ValueError("label_names: labels.rename does the same; leave one of them out")
        if self.format in ("tsv", "jsonl", "json", "parquet", "xlsx") and "delimiter" in self.model_fields_set:
            raise ValueError(f"delimiter: has no effect on {self.format}; the format csv has one")
        if self.format in ("parquet", "xlsx") and "encoding" in self.model_fields_set:
            raise ValueError(f"encoding: has no effect on {self.format}; remove it")
        if self.format not in ("", "xlsx") and self.sheet:
            raise ValueError(f"sheet: has no effect on {self.format}; a workbook (xlsx) has sheets")
        return self

    @model_validator(mode="after")
    def _splits_once(self) -> "Params":
        """Raise ValueError if `split` has nothing to divide, makes what is a file, or needs a column of no table."""
        if self.split is None:
            return self
        if "train" not in self.files:
            raise ValueError(f"split: it divides the rows of train, but files has {', '.join(self.files)}")
        if both := [name for name in self.split.made if name in self.files]:
            raise ValueError(f"split: {both[0]} has a file already; leave one of them out")
        if self.split.column and self.format in FORMATS:
            raise ValueError(f"split: by: the format {self.format} has no columns; write share")
        return self
