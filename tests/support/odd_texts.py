"""Unusual texts that tokenizers may handle wrongly."""

from hypothesis import strategies as st

SOME = ["", "   ", "😀😀", "Ｆｕｌｌ　ｗｉｄｔｈ ｶﾅ", "a\tb\nc", "㍻①", "x" * 300, "[MASK]です", "\u200bゼロ幅"]
LETTERS = st.sampled_from(
    "がカ\u3099ｶﾞﾊﾟ㌔㍻①ﬁé\u0301\u0327\u0334q ａＢ　\u200b\u1100\u1161\u11a8ﷺ😀\U0001f468\u200d犬好き。abc\n\t"
)
ANY = st.text(st.one_of(LETTERS, st.characters(exclude_categories=["Cs"])), max_size=40)
