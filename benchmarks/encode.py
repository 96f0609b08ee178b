"""Japanese text to ids: how near to MeCab alone, and how much faster than BertJapaneseTokenizer.

Titles and bodies of the livedoor corpus in BERTLINE_MIRROR, with the published 32,000-entry vocabulary and ipadic.
Every contender gives a model's whole input, special tokens and all, and ours the reference's own (checked first); two
processes are measured on the texts ten times over, because starting them is a fixed cost.
"""

import json
import os
import shutil
import tempfile
import unicodedata
from pathlib import Path

import harness
import pyarrow as pa
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoTokenizer, BertTokenizerFast

from pipelines.core import schema, tables
from pipelines.core.task import Task
from pipelines.data.corpora import livedoor
from pipelines.data.formats.records import tsv
from pipelines.text import encode_entry, mecab, parallel, tokenizer, vocab
from pipelines.text.normalize import nfkc

OF_MECAB = 0.85  # of the rate of bare MeCab
TWO_OF_ONE = 1.85
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


def measure(name: str, texts: list[str], place: Path, repeats: int, quick: bool) -> list[harness.Claim]:
    reference, ours, tagger = AutoTokenizer.from_pretrained(place), tokenizer.load(place), mecab.tagger("ipadic")
    normal = [nfkc(text) for text in texts]
    plain = Tokenizer(vocab.wordpiece(vocab.read(place)))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rows = ({"id": "", "text": text, "label": None} for text in texts)
    batches = list(tables.batches(rows, schema.ROWS["single"], encode_entry.BATCH_ROWS))

    def encoded(processes: int, times: int = 1) -> list[pa.RecordBatch]:
        return [ids for ids, _ in parallel.encoded(batches * times, ours, TASK, LONGEST, processes)]

    def loop() -> list[list[int]]:
        words = [[node.surface for node in tagger(nfkc(text))] for text in texts]
        return [[2, *e.ids, 3] for e in plain.encode_batch(words, is_pretokenized=True, add_special_tokens=False)]

    token_ids = [ids for batch in encoded(1) for ids in batch.column("input_ids").to_pylist()]
    assert token_ids == reference(texts, verbose=False)["input_ids"]
    contenders = {
        "BertJapaneseTokenizer": lambda: reference(texts, verbose=False),
        "fugashi and tokenizers in a loop": loop,
        "one process": lambda: encoded(1),
        "two processes": lambda: encoded(2, FOLD),
        "bare MeCab": lambda: [tagger.parse(unicodedata.normalize("NFKC", text)) for text in texts],
        "MeCab on normal texts": lambda: [tagger.parse(text) for text in normal],
    }
    seconds = harness.in_turn(contenders, repeats)
    seconds["two processes"] = [second / FOLD for second in seconds["two processes"]]
    letters = sum(map(len, texts))
    for who, times in seconds.items():
        print(f"{name}: {who}: {letters / sorted(times)[len(times) // 2] / 1e6:.2f} million characters a second")
    alone, together = seconds["one process"], seconds["two processes"]
    claims = [
        harness.ratio(f"{name}_one_process_of_bare_MeCab", OF_MECAB, seconds["bare MeCab"], alone),
        harness.ratio(f"{name}_one_process_of_MeCab_on_normal_texts", None, seconds["MeCab on normal texts"], alone),
        harness.ratio(f"{name}_one_process_vs_BertJapaneseTokenizer", None, seconds["BertJapaneseTokenizer"], alone),
        harness.ratio(f"{name}_one_process_vs_fugashi_loop", 1, seconds["fugashi and tokenizers in a loop"], alone),
    ]
    if not quick:  # few texts are encoded before the second process has started
        claims.append(harness.ratio(f"{name}_two_processes_vs_one", TWO_OF_ONE, alone, together))
        peer = seconds["BertJapaneseTokenizer"]
        claims.append(harness.ratio(f"{name}_two_processes_vs_BertJapaneseTokenizer", None, peer, together))
    return claims


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
    repeats = 3 if options.quick else 15  # a round is short, the machine shared
    with tempfile.TemporaryDirectory() as place:
        claims = measure("titles", titles, folder(mirror, Path(place)), repeats, options.quick)
        claims += measure("bodies", bodies, folder(mirror, Path(place)), repeats, options.quick)
        claims.append(english(mirror, Path(place), repeats, 7 if options.quick else 1))
    harness.report(claims, ("fugashi", "ipadic", "tokenizers", "transformers", "pyarrow"), options.json)


if __name__ == "__main__":
    main()
