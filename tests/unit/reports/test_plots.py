"""Pictures are the same for the same numbers."""

from pipelines.reports import plots


def test_a_picture_is_the_same_bytes_for_the_same_numbers() -> None:
    picture = plots.confusion([[5, 1], [2, 4]], ["a", "b"])
    assert plots.confusion([[5, 1], [2, 4]], ["a", "b"]) == picture
    assert plots.confusion([[5, 1], [3, 4]], ["a", "b"]) != picture
    assert picture.startswith("<svg")
