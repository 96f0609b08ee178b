"""Count how often the ids of long Japanese texts change where `text/chunks.py` cuts them; nothing is timed.

200 texts of 20 livedoor articles each, as they are and without white space, whole and in shorter and shorter pieces.
BERTLINE_MIRROR names the folder that holds livedoor/ldcc-20140209.tar.gz.
"""

import os
from pathlib import Path

import numpy as np

from pipelines.data.formats.archives import tar_files
from pipelines.text import chunks, tokenizer

ARTICLES, TEXTS, CHARACTERS = 20, 200, 60_000
MOST = (1 << 15, 1 << 13, 1 << 10)


def ids(loaded: tokenizer.Tokenizer, texts: list[str], most: int) -> list[np.ndarray]:
    chunks.MAX_CHARACTERS = most
    return [loaded.encode([text]).values for text in texts]


def main() -> None:
    archive = Path(os.environ["BERTLINE_MIRROR"], "livedoor/ldcc-20140209.tar.gz")
    articles = [content.decode() for name, content in tar_files(archive) if name.endswith(".txt")]
    joined = ["".join(articles[i * ARTICLES : (i + 1) * ARTICLES])[:CHARACTERS] for i in range(TEXTS)]
    loaded = tokenizer.load(Path("encoders/mini-ja"))
    solid = ["".join(text.split()) for text in joined]
    for name, texts in {"as they are": joined, "without white space": solid}.items():
        whole = ids(loaded, texts, CHARACTERS)
        for most in MOST:
            changed = sum(not np.array_equal(a, b) for a, b in zip(whole, ids(loaded, texts, most), strict=True))
            print(f"{name}: pieces of {most:,} characters: {changed} of {len(texts)} texts have other ids")


if __name__ == "__main__":
    main()
