"""The script of texts: the language of the small encoder that reads them, and a doubt where none of them does."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from itertools import islice

SAMPLE = 2000  # texts by which a script is told
JAPANESE = re.compile("[぀-ヿ㐀-鿿]")
KANA = re.compile("[぀-ヿ]")
FEW = 0.1  # share of texts with kana, below which texts of Han characters are no Japanese ones
# first words of the names of letters that the small encoders write
WRITTEN = ("LATIN", "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "FULLWIDTH", "HALFWIDTH", "IDEOGRAPHIC")


def language(texts: Collection[str]) -> str:
    """The language whose small encoder writes most texts: ja if they hold kana or Han characters, else en."""
    return "ja" if sum(bool(JAPANESE.search(text)) for text in texts) > len(texts) / 2 else "en"


def foreign(texts: Collection[str]) -> str:
    """The script of most letters, if no small encoder knows its languages; "" if one does."""
    sample = [*islice(texts, SAMPLE)]
    scripts = Counter[str]()
    for letter, count in Counter("".join(sample)).items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "").partition(" ")[0]] += count
    for script, count in scripts.most_common(1):
        if script not in WRITTEN and count > scripts.total() / 2:
            return script.capitalize()
    are_han = language(sample) == "ja"
    return "Han without kana" if are_han and sum(bool(KANA.search(text)) for text in sample) < FEW * len(sample) else ""
