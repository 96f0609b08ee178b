"""Scripts of texts: which small encoder reads them, and which texts none of them reads."""

import pytest

from pipelines.data import scripts

TEXTS = {
    "en": ["Where is my order?", "naïve café №7"],
    "ja": ["犬が好き。", "東京都知事選挙", "ﾃｽﾄです"],
    "Hangul": ["환불해 주세요", "배송이 늦어요 OK"],
    "Arabic": ["أين طلبي؟"],
    "Thai": ["สวัสดีครับ", "ขอบคุณมาก"],
    "Cyrillic": ["Где мой заказ?"],
    "Han without kana": ["我的订单在哪里", "请退款"],
}


@pytest.mark.parametrize("name", TEXTS)
def test_scripts_are_told_by_their_letters(name: str) -> None:
    texts = TEXTS[name]
    assert scripts.foreign(texts) == ("" if name in ("en", "ja") else name)
    assert scripts.language(texts) == ("ja" if name in ("ja", "Han without kana") else "en")


def test_texts_without_letters_have_no_script() -> None:
    assert (scripts.foreign(["12", ""]), scripts.language(["12"]), scripts.foreign([])) == ("", "en", "")
