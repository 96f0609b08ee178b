"""vibrato in MeCab's place: are its words MeCab's own on all of livedoor, and is it faster?

The project is not built on vibrato: its wheel has to be installed by hand, and ipadic's CSV files have to be brought,
for PyPI's ipadic holds only what MeCab compiled of them. Debian's package mecab-ipadic has them.

    pip install vibrato==0.2.3
    python benchmarks/segmenters.py /usr/share/mecab/dic/ipadic --json benchmarks/results/segmenters.json
"""

import argparse
import os
import tempfile
from pathlib import Path

import harness
import vibrato
from encode import folder
from transformers import AutoTokenizer

from pipelines.data.corpora import livedoor
from pipelines.text import mecab
from pipelines.text.normalize import nfkc

AIMS = {"titles": 13.0, "bodies": 10.0}  # for ids, against BertJapaneseTokenizer: words alone must be faster still
LONGEST_UNKNOWN = 24  # letters of an unknown word that MeCab keeps together


def segmenter(place: Path) -> vibrato.Vibrato:
    """vibrato with MeCab's settings: white space belongs to no word."""

    def text(name: str) -> str:
        return (place / name).read_bytes().decode("euc_jp")

    words = "".join(text(file.name) for file in sorted(place.glob("*.csv")))
    return vibrato.Vibrato.from_textdict(
        words, text("matrix.def"), text("char.def"), text("unk.def"), True, LONGEST_UNKNOWN
    )


def measure(name: str, texts: list[str], ours: vibrato.Vibrato, place: Path) -> list[harness.Claim]:
    """Of `texts`, the share with MeCab's own words, and the rate of words alone."""
    parse, reference = mecab.tagger("ipadic").parse, AutoTokenizer.from_pretrained(place)
    same = sum(parse(text).split() == ours.tokenize_to_surfaces(text) for text in map(nfkc, texts))
    some = texts[:: 10 if name == "bodies" else 1]
    seconds = harness.in_turn(
        {
            "BertJapaneseTokenizer": lambda: reference(some, verbose=False),
            "MeCab": lambda: [parse(nfkc(text)).split() for text in some],
            "vibrato": lambda: [ours.tokenize_to_surfaces(nfkc(text)) for text in some],
        },
        repeats=5,
    )
    return [
        harness.Claim(f"{name}_with_MeCab's_words", 1, round(same / len(texts), 4), (0, 1), same == len(texts)),
        harness.ratio(f"{name}_words_alone_vs_MeCab", 1, seconds["MeCab"], seconds["vibrato"]),
        harness.ratio(
            f"{name}_words_alone_vs_BertJapaneseTokenizer",
            AIMS[name],
            seconds["BertJapaneseTokenizer"],
            seconds["vibrato"],
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ipadic", type=Path, help="folder of ipadic's CSV files, in EUC-JP")
    parser.add_argument("--json", type=Path, help="write the claims here")
    options = parser.parse_args()
    ours = segmenter(options.ipadic)
    articles = livedoor.read(Path(os.environ["BERTLINE_MIRROR"]) / "livedoor" / livedoor.ARCHIVE)
    with tempfile.TemporaryDirectory() as place:
        words = folder(Path(os.environ["BERTLINE_MIRROR"]), Path(place))
        claims = measure("titles", [article.title for article in articles], ours, words)
        claims += measure("bodies", [article.body for article in articles], ours, words)
    harness.report(claims, ("fugashi", "ipadic", "vibrato", "transformers"), options.json)


if __name__ == "__main__":
    main()
