"""Japanese text to ids: how much faster than BertJapaneseTokenizer, and how near to MeCab alone.

Titles and bodies of the livedoor corpus in BERTLINE_MIRROR, with the published 32,000-entry vocabulary and ipadic. Every
contender gives a model's whole input, special tokens and all, and ours the reference's own (checked first); two processes are measured on the texts ten times over,
because starting them is a fixed cost.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

import harness
import pyarrow as pa
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoTokenizer, BertTokenizerFast

from pipelines.core import schema, tables
from pipelines.core.task import Task
from pipelines.data.corpora import livedoor
from pipelines.data.formats.records import tsv
from pipelines.text import mecab, parallel, tokenizer, vocab

AIMS = {"titles": (9.0, 16.0), "bodies": (6.5, 12.0)}  # against BertJapaneseTokenizer: one process, two
OF_MECAB = 0.7  # of bare MeCab's rate
TASK = Task("headlines", "single", ("label",))
LONGEST = 1 << 20  # nothing is cut
FOLD = 10


def folder(mirror: Path, place: Path) -> Path:
    """A BertJapaneseTokenizer's folder with the published vocabulary."""
    shutil.copyfile(mirror / "vocab/bert-base-japanese-v1_vocab.txt", place / "vocab.txt")
    config = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"}
    config |= {"subword_tokenizer_type": "wordpiece", "mecab_kwargs": {"mecab_dic": "ipadic"}}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    return place


def measure(name: str, texts: list[str], place: Path, repeats: int) -> list[harness.Claim]:
    reference, ours, tagger = AutoTokenizer.from_pretrained(place), tokenizer.load(place), mecab.tagger("ipadic")
    plain = Tokenizer(vocab.wordpiece(vocab.read(place)))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rows = ({"id": "", "text": text, "label": None} for text in texts)
    batches = list(tables.batches(rows, schema.ROWS["single"]))

    def encoded(processes: int, times: int = 1) -> list[pa.RecordBatch]:
        return [ids for ids, _ in parallel.encoded(batches * times, ours, TASK, LONGEST, processes)]

    def loop() -> list[list[int]]:
        words = [[node.surface for node in tagger(mecab.normalize(text))] for text in texts]
        return [[2, *e.ids, 3] for e in plain.encode_batch(words, is_pretokenized=True, add_special_tokens=False)]

    found = [ids for batch in encoded(1) for ids in batch.column("input_ids").to_pylist()]
    assert found == reference(texts, verbose=False)["input_ids"]
    contenders = {
        "BertJapaneseTokenizer": lambda: reference(texts, verbose=False),
        "fugashi and tokenizers in a loop": loop,
        "one process": lambda: encoded(1),
        "two processes": lambda: encoded(2, FOLD),
        "bare MeCab": lambda: [tagger.parse(mecab.normalize(text)) for text in texts],
    }
    seconds = harness.in_turn(contenders, repeats)
    seconds["two processes"] = [second / FOLD for second in seconds["two processes"]]
    letters = sum(map(len, texts))
    for who, times in seconds.items():
        print(f"{name}: {who}: {letters / sorted(times)[len(times) // 2] / 1e6:.2f} million characters a second")
    peer, mine = seconds["BertJapaneseTokenizer"], seconds["one process"]
    one, two = AIMS[name]
    return [
        harness.ratio(f"{name}_one_process_vs_BertJapaneseTokenizer", one, peer, mine),
        harness.ratio(f"{name}_two_processes_vs_BertJapaneseTokenizer", two, peer, seconds["two processes"]),
        harness.ratio(f"{name}_one_process_vs_fugashi_loop", 1, seconds["fugashi and tokenizers in a loop"], mine),
        harness.ratio(f"{name}_one_process_of_bare_MeCab", OF_MECAB, seconds["bare MeCab"], mine),
    ]


def english(mirror: Path, place: Path, repeats: int, every: int) -> harness.Claim:
    """SST-2 with the published uncased vocabulary: ids in a Parquet file, against ids alone from `tokenizers`."""
    shutil.copyfile(mirror / "vocab/bert-base-uncased_vocab.txt", place / "vocab.txt")
    (place / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    ours, peer = tokenizer.load(place), BertTokenizerFast.from_pretrained(place).backend_tokenizer
    texts = [record["sentence"] for _, record in tsv(mirror / "glue/SST-2/train.tsv")][::every]
    rows = ({"id": "", "text": text, "label": None} for text in texts)
    batches = list(tables.batches(rows, schema.ROWS["single"]))
    form = schema.encoded("single", ours.vocab_size)

    def to_parquet() -> None:
        tables.write(place / "ids.parquet", (ids for ids, _ in parallel.encoded(batches, ours, TASK, LONGEST)), form)

    seconds = harness.in_turn({"peer": lambda: peer.encode_batch(texts), "ours": to_parquet}, repeats)
    return harness.ratio("english_to_parquet_vs_tokenizers_encode_batch", 0.9, seconds["peer"], seconds["ours"])


def main() -> None:
    options = harness.arguments(__doc__.splitlines()[0])
    mirror = Path(os.environ["BERTLINE_MIRROR"])
    articles = livedoor.read(mirror / "livedoor" / livedoor.ARCHIVE)
    bodies = [article.body for article in articles[:: 70 if options.quick else 10]]
    titles = [article.title for article in articles[:: 7 if options.quick else 1]]
    repeats = 3 if options.quick else 5
    with tempfile.TemporaryDirectory() as place:
        claims = measure("titles", titles, folder(mirror, Path(place)), repeats)
        claims += measure("bodies", bodies, folder(mirror, Path(place)), repeats)
        claims.append(english(mirror, Path(place), repeats, 7 if options.quick else 1))
    harness.report(claims, ("fugashi", "ipadic", "tokenizers", "transformers", "pyarrow"), options.json)


if __name__ == "__main__":
    main()
