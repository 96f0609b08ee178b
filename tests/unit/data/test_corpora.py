"""Corpora that no mirror may hold: their official forms, a few lines of each."""

import zipfile
from pathlib import Path

import pytest

from pipelines.core.errors import InputError
from pipelines.data.corpora import conll2003, glue, jglue, squad, swag
from tests.support.file_texts import IOB1, SQUAD


def test_mrpc_is_msrs_files_and_a_list_of_dev_ids(tmp_path: Path) -> None:
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    (tmp_path / "msr_paraphrase_train.txt").write_text(header + '1\t10\t11\tHe said "a\tHe says a\n0\t12\t13\tb\tc\n')
    (tmp_path / "msr_paraphrase_test.txt").write_text(header + "1\t20\t21\td\te\n")
    (tmp_path / "mrpc_dev_ids.tsv").write_text("12\t13\n")
    splits = {s: list(glue.parse(tmp_path, glue.TASKS["MRPC"], s, glue.Params())) for s in ("train", "dev", "test")}
    assert [(row["id"], row["text"], row["label"]) for row in splits["train"]] == [
        ("10-11", 'He said "a', "equivalent")
    ]
    assert [(row["id"], row["label"]) for row in splits["dev"]] == [("12-13", "not_equivalent")]
    assert len(splits["test"]) == 1


@pytest.mark.parametrize(
    ("name", "archive", "member", "split", "content", "row"),
    [
        (
            "QQP",
            "QQP-clean.zip",
            "QQP/train.tsv",
            "train",
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n7\t1\t2\ta?\tb?\t1\n",
            {"id": "0", "text": "a?", "text_pair": "b?", "label": "duplicate"},
        ),
        (
            "MNLI",
            "MNLI.zip",
            "MNLI/dev_mismatched.tsv",
            "dev_mismatched",
            "index\tsentence1\tsentence2\tlabel1\tgold_label\n5\ta\tb\tneutral\tneutral\n",
            {"id": "5", "text": "a", "text_pair": "b", "label": "neutral"},
        ),
        (
            "QNLI",
            "QNLIv2.zip",
            "QNLI/test.tsv",
            "test",
            "index\tquestion\tsentence\n0\tq?\ts.\n",
            {"id": "0", "text": "q?", "text_pair": "s.", "label": None},
        ),
    ],
)
def test_glue_archives_are_parsed(
    name: str, archive: str, member: str, split: str, content: str, row: dict, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / archive, "w") as out:
        out.writestr(member, content)
    assert list(glue.parse(tmp_path, glue.TASKS[name], split, glue.Params())) == [row]


def test_swags_endings_follow_the_second_sentences_beginning(tmp_path: Path) -> None:
    (tmp_path / "val.csv").write_text(
        ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
        '3,v,1,"a, b",She sits.,She,gold,"is, was",runs,eats,sleeps,2\n'
    )
    (row,) = swag.parse(tmp_path, swag.TASKS["swag"], "dev", swag.Params())
    assert row["choices"] == ["She is, was", "She runs", "She eats", "She sleeps"]
    assert (row["text"], row["label"]) == ("She sits.", "2")


def test_jnli_and_jsquad_are_parsed(tmp_path: Path) -> None:
    import json

    (tmp_path / "valid-v1.3.json").write_text(
        '{"sentence_pair_id": "3", "sentence1": "犬", "sentence2": "猫", "label": "contradiction"}\n'
    )
    (row,) = jglue.parse(tmp_path, jglue.TASKS["jnli"], "dev", jglue.Params())
    assert row == {"id": "3", "text": "犬", "text_pair": "猫", "label": "contradiction"}
    for name in ("jnli", "jsquad"):
        assert jglue.TASKS[name].splits == tuple(jglue.ROWS[name]) == ("train", "dev", "test")
        assert [source.name for source in jglue.SOURCES[name]][-1] == "test-v1.3.json"
    (tmp_path / "valid-v1.3.json").write_text(json.dumps(SQUAD))
    assert len(list(jglue.parse(tmp_path, jglue.TASKS["jsquad"], "dev", jglue.Params()))) == 3
    (tmp_path / "dev-v2.0.json").write_text(json.dumps(SQUAD))
    assert [len(r["answers"] or []) for r in squad.parse(tmp_path, squad.TASKS["2.0"], "dev", squad.Params())] == [
        1,
        0,
        0,
    ]


def test_a_corpus_with_other_numbers_of_rows_than_it_declares_is_refused(tmp_path: Path) -> None:
    for file in ("eng.train", "eng.testa", "eng.testb"):
        (tmp_path / file).write_text(IOB1)
    assert len(list(conll2003.parse(tmp_path, conll2003.TASKS["entities"], "dev", conll2003.Params()))) == 2
    with pytest.raises(InputError, match="entities has 2 rows in train, 14,041 are declared"):
        conll2003.verify(tmp_path, "official")
