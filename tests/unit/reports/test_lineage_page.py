"""The picture of a version's lineage: what leads to what."""

from xml.etree import ElementTree

from pipelines.reports import lineage_page, plots


def stage(name: str, read: list[str], wrote: list[str]) -> dict[str, object]:
    return {"stage": name, "run": "", "read": dict.fromkeys(read, "0" * 32), "wrote": dict.fromkeys(wrote, "1" * 32)}


STAGES = [
    stage("prepare@a", ["samples/a"], ["rows/a"]),
    stage("encode@a", ["rows/a", "encoders/e"], ["encoded/a"]),
    stage("finetune@a", ["encoded/a", "encoders/e"], ["models/a"]),
]


def test_sources_are_what_no_stage_wrote() -> None:
    sources, edges = lineage_page.flow(STAGES)
    assert sources == ["samples/a", "encoders/e"]
    assert edges == [
        ("samples/a", "prepare@a"),
        ("prepare@a", "encode@a"),
        ("encoders/e", "encode@a"),
        ("encode@a", "finetune@a"),
        ("encoders/e", "finetune@a"),
    ]


def test_each_stands_to_the_right_of_what_leads_to_it() -> None:
    sources, edges = lineage_page.flow(STAGES)
    svg = plots.layers([*sources, *(str(row["stage"]) for row in STAGES)], edges)
    right = {}
    for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        right[text.text] = float((text.get("transform") or "").partition("(")[2].split()[0])
    assert right["samples/a"] < right["prepare"] < right["encode"] < right["finetune"]
    assert right["encoders/e"] < right["encode"]


def test_the_page_says_what_was_read_and_written() -> None:
    page = lineage_page.html("Lineage of a version 1", ["of commit <abc>"], STAGES)
    assert page.count("<svg") == 1
    assert "<li>of commit &lt;abc&gt;</li>" in page
    assert page.index("<td>models/a") < page.index("<td>samples/a"), "the last stage first"
