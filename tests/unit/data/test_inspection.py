"""What `bertline new` sees in files of one's own: their splits, their form, and labels as pandas writes them."""

from pathlib import Path

import pandas as pd
import pytest

from pipelines.core.errors import InputError
from pipelines.data import inspection
from pipelines.graph import new_entries

LINES = [f"word {i * i} x,{'ab'[i % 2]}" for i in range(40)]


def csv(path: Path, encoding: str = "utf-8", delimiter: str = ",", first: str = "x") -> Path:
    lines = ["text,label", f"{first},a", *LINES]
    path.write_bytes("".join(line.replace(",", delimiter) + "\n" for line in lines).encode(encoding))
    return path


def test_whole_numbers_that_pandas_wrote_as_floats_are_labels(checkout: Path) -> None:
    labels = [None if i % 4 == 0 else i % 2 for i in range(40)]
    pd.DataFrame({"text": [f"word {i * i}" for i in range(40)], "label": labels}).to_parquet("a.parquet")
    seen = inspection.inspect([Path("a.parquet")])
    assert (seen.labels, len(seen.unlabelled), seen.broken) == ({"0": 10, "1": 20}, 10, [])
    assert seen.keys["labels"] == {"names": ["0", "1"], "rename": {"0.0": "0", "1.0": "1"}}
    pd.DataFrame({"text": [f"word {i * i}" for i in range(40)], "label": [0.5] * 20 + [None] * 20}).to_parquet(
        "a.parquet"
    )
    with pytest.raises(InputError, match=r"a\.parquet: no row has a label; a\.parquet: row 1: the label is 0\.5"):
        inspection.inspect([Path("a.parquet")])


@pytest.mark.parametrize(
    ("name", "split"),
    [
        *(("train", "train"), ("pairs_train", "train"), ("Training-Data", "train"), ("trainset2", "train")),
        *(("test", "test"), ("x.test.2024", "test"), ("dev", "dev"), ("validation", "dev"), ("my_val", "dev")),
        *(("latest", ""), ("contest", ""), ("interval", ""), ("reviews_value", ""), ("constraint", ""), ("device", "")),
    ],
)
def test_the_words_of_a_name_say_its_split(name: str, split: str) -> None:
    assert inspection.split_of(Path(f"{name}.csv")) == split


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("test.csv", {"encoding": "cp932", "first": "映画の公開日が決定"}, "their encoding is 'utf-8' and 'cp932'"),
        ("test.tsv", {"delimiter": "\t"}, "their format is 'csv' and 'tsv'"),
        ("test.csv", {"delimiter": ";"}, "their delimiter is ',' and ';'"),
    ],
)
def test_files_of_two_forms_are_refused(name: str, options: dict[str, str], why: str, checkout: Path) -> None:
    files = [csv(Path("train.csv"), first="映画"), csv(Path(name), **options)]
    with pytest.raises(InputError, match=f"train.csv and {name}: {why}; save both alike"):
        inspection.inspect(files)


@pytest.mark.parametrize("first", ["train", "test"])
def test_ascii_stands_beside_any_encoding(first: str, checkout: Path) -> None:
    csv(Path(f"{first}.csv"), "cp932", first="映画の公開日が決定")
    csv(Path("test.csv" if first == "train" else "train.csv"))
    seen = inspection.inspect([Path("train.csv"), Path("test.csv")])
    assert (seen.keys["encoding"], seen.rows) == ("cp932", {"train": 41, "test": 41})


@pytest.mark.parametrize("name", ["2024-03-01", "2024", "1e3", "on", "null", "0o17", "12_30", "true"])
def test_a_name_that_yaml_reads_as_another_value_stands_in_quotes(name: str, checkout: Path) -> None:
    seen = inspection.inspect([csv(Path("a.csv"))])
    new_entries.divide(seen)
    new_entries.write(Path("params.yaml"), new_entries.entries(name, seen))
    new_entries.write(Path("params.yaml"), new_entries.entries("other", seen))
    assert f"{name}-baseline" in Path("params.yaml").read_text()
