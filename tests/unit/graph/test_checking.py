"""The whole of params.yaml: what is wrong is said in one sentence, with the key and the choices."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from pipelines.core import params, plugins, resources
from pipelines.core.errors import UsageError
from pipelines.core.section import Section
from pipelines.graph import checking, code_manifest
from tests.support import disks
from tests.support.places import ROOT

GOOD = """
prepare:
  a: {corpus: custom, source: x}
encode:
  a: {task: a, vocab: v, max_length: 16}
finetune:
  run: {data: a, encoder: e}
"""
WRONG = {
    "a misspelt section": (GOOD + "\nfintune: {}\n", "no section 'fintune' (did you mean 'finetune'?)"),
    "a misspelt key": (
        GOOD.replace("encoder: e", "encoder: e, learning_rat: 1"),
        "finetune.run: no key 'learning_rat'",
    ),
    "a wrong type": (GOOD.replace("encoder: e", "encoder: e, epochs: many"), "finetune.run.epochs: 'many'"),
    "out of range": (GOOD.replace("encoder: e", "encoder: e, learning_rate: -1"), "finetune.run.learning_rate: -1"),
    "a missing key": (GOOD.replace("data: a, ", ""), "finetune.run.data: missing"),
    "a wrong choice": (GOOD.replace("encoder: e", "encoder: e, strategy: half"), "'full', 'top_k' or 'frozen'"),
    "an unknown reference": (
        GOOD.replace("data: a", "data: b"),
        "finetune.run.data: no encode entry 'b'; there are: a",
    ),
    "a reference to one of two sections": (
        GOOD + "compress: {small: {teacher: rum, data: a, method: dynamic_int8}}",
        "compress.small.teacher: no finetune or compress entry 'rum' (did you mean 'run'?); there are: run, small",
    ),
    "an unknown run": (GOOD + "evaluate: {other: {task: a}}", "evaluate.other: no finetune or compress entry 'other'"),
    "a search for an unknown run": (
        GOOD + "tune: {other: {search: {epochs: [1]}, trials: 1}}",
        "tune.other: no finetune entry 'other'; there are: run",
    ),
    "a teacher that is made from itself": (
        GOOD + "compress: {x: {teacher: y, data: a, method: pkd}, y: {teacher: x, data: a, method: pkd}}",
        "compress.x.teacher: y is made from x itself",
    ),
    "one file as source and target": (
        GOOD + "score: {a: {model: m, source: 'x/{window}', target: './x/{window}', since: '2026-11-01'}}",
        "score.a: source and target are both './x/{window}'; answers need another file",
    ),
    "one target of two entries": (
        GOOD + "promote: {run: {run: run}}\nscore:\n  a: &a {model: run, source: 'x/{window}', target: 'y/{window}', "
        "since: '2026-11-01'}\n  b: {<<: *a, source: 'z/{window}'}\n",
        "score.b.target: y/{window} is that of score.a; name another",
    ),
    "a section that is pasted again": (
        "prepare:\n  a: {corpus: mrpc}\nencode: {}\nprepare:\n  b: {corpus: mrpc}\n",
        "params.yaml: line 4: 'prepare' is there already (line 1); put these entries below it",
    ),
    "a key that stands twice": (
        "encode:\n  a:\n    max_length: 8\n    max_length: 9\n",
        "params.yaml: line 4: 'max_length' is there already (line 3); remove one of them",
    ),
    "no mapping": ("- a\n- b\n", "it must map names to values"),
    "no YAML": ("a: [", "not readable as YAML"),
    "an entry that is no mapping": (GOOD + "export: {run: 3}", "export.run: 3 is not a mapping"),
    "resources": (GOOD + "resources: {worker: 2}", "resources: no key 'worker' (did you mean 'workers'?)"),
    "resources of no stage": (
        GOOD + "resources: {stages: {pretain: {threads: 1}}}",
        "resources.stages: no stage 'pretain' (did you mean 'pretrain'?)",
    ),
    "resources of no entry": (
        GOOD + "resources: {stages: {finetune@rum: {threads: 1}}}",
        "resources.stages: no finetune entry 'rum' (did you mean 'run'?); there are: run",
    ),
    "resources of a stage": (
        GOOD + "resources: {stages: {finetune@run: {thread: 1}}}",
        "resources.stages.finetune@run: no key 'thread' (did you mean 'threads'?)",
    ),
}


def test_resources_of_an_entry_replace_those_of_its_stage(checkout: Path) -> None:
    stages = "{finetune: {threads: 2, gpus: 1}, finetune@run: {threads: 3}}"
    (checkout / "params.yaml").write_text(f"resources: {{threads: 1, cache_gb: 9, stages: {stages}}}")
    every = [resources.read("encode", "run"), resources.read("finetune", "a"), resources.read("finetune", "run")]
    assert [(resources.threads, resources.gpus, resources.cache_gb) for resources in every] == [
        (1, 0, 9),
        (2, 1, 9),
        (3, 1, 9),
    ]


def test_a_stage_that_a_user_added_to_the_graph_may_have_resources(checkout: Path) -> None:
    (checkout / "params.yaml").write_text(GOOD + "resources: {stages: {mail: {threads: 1}}}")
    with pytest.raises(UsageError, match="no stage 'mail'"):
        checking.check()
    (checkout / "dvc.yaml").write_text("stages: {mail: {cmd: mail ann}}")
    checking.check()


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_fails_in_one_sentence(name: str, checkout: Path) -> None:
    text, sentence = WRONG[name]
    (checkout / "params.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        checking.check()
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("params.yaml")
    assert "\n" not in str(caught.value)


def test_a_missing_params_file_fails_in_one_sentence(checkout: Path) -> None:
    with pytest.raises(UsageError, match=r"params\.yaml: no such file; stages run at the root of a checkout, or of"):
        checking.check()
    ready_made = "params/nothing.yaml: no such file; the ready-made files are in params/ of bertline's checkout"
    with pytest.raises(UsageError, match=ready_made):
        checking.activate(Path("params/nothing.yaml"), False)


def test_valid_params_are_returned_by_section_and_name(checkout: Path) -> None:
    (checkout / "params.yaml").write_text(GOOD + "evaluate: {run: {task: a}}\ndefaults: {anything: 1}\n")
    checked = checking.check()
    assert {section: set(entries) for section, entries in checked.items() if entries} == {
        "prepare": {"a"},
        "encode": {"a"},
        "finetune": {"run"},
        "evaluate": {"run"},
    }
    assert set(checked) == set(plugins.names(params.ENTRIES))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("method: drop_layer", "compress.x: no method 'drop_layer' (did you mean 'drop_layers'?)"),
        ("method: __init__", "compress.x: no method '__init__'"),
        ("method: prune_heads, share: x", "compress.x.share: 'x'"),
        ("method: prune_heads, share: 0.5, sahre: 1", "compress.x: no key 'sahre' (did you mean 'share'?)"),
        ("method: prune_magnitude, sparsity: 60", "compress.x.sparsity: 60"),
    ],
)
def test_keys_that_a_plugin_owns_are_asked_of_it(entry: str, message: str, checkout: Path) -> None:
    """`bertline check` says before any training what the stage would say after it."""
    good = GOOD.replace("source: x", "source: x, kind: single, format: jsonl, files: {train: x}")
    (checkout / "params.yaml").write_text(good + f"compress: {{x: {{teacher: run, data: a, {entry}}}}}\n")
    with pytest.raises(UsageError) as caught:
        checking.check_options(checking.check())
    assert str(caught.value).startswith(f"params.yaml: {message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages:\n<<<<<<< HEAD\n  a: {cmd: x}\n", "not readable as YAML: .*line [34]"),
        ("", "no `stages:`"),
        ("- a\n", "no `stages:`"),
        ("stages:\n", "no `stages:`"),
        ("stages: {a: {outs: [b]}}\n", r"stages\.a: no `cmd:`"),
        ("stages: {a: {foreach: [b], do: x}}\n", r"stages\.a: no `cmd:`"),
        ("stages: {a: {cmd: []}}\n", r"stages\.a: no `cmd:`"),
    ],
)
def test_a_graph_that_cannot_be_read_is_one_sentence(text: str, message: str, checkout: Path) -> None:
    (checkout / "dvc.yaml").write_text(text)
    (checkout / "params.yaml").write_text(GOOD + "resources: {stages: {a: {threads: 1}}}\n")
    for reads in (checking.check, lambda: code_manifest.stages(graph=Path("dvc.yaml"))):
        with pytest.raises(UsageError, match=f"^dvc.yaml: {message}"):
            reads()


@pytest.mark.parametrize("name", plugins.names(params.ENTRIES))
def test_sections_refer_to_sections_that_exist(name: str) -> None:
    model = checking.section(name)
    assert set(model.refers) <= set(model.model_fields)
    targets = {target for names in (*model.refers.values(), model.named_after) for target in names}
    assert targets <= set(plugins.names(params.ENTRIES))


def test_a_new_section_is_a_file_and_is_checked(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`refers` and `named_after` are all that it says of the others."""

    class Praise(Section):
        refers: ClassVar[Any] = {"of": ("finetune", "compress")}
        named_after: ClassVar[Any] = ("encode",)

        of: str

    sections, section_of = plugins.names(params.ENTRIES), checking.section
    monkeypatch.setattr(plugins, "names", lambda package: [*sections, "praise"])
    monkeypatch.setattr(checking, "section", lambda name: Praise if name == "praise" else section_of(name))
    (checkout / "params.yaml").write_text(GOOD + "praise: {a: {of: run}}\n")
    assert checking.check()["praise"]["a"] == Praise(of="run")
    for entry, message in (
        ("a: {of: a}", "params.yaml: praise.a.of: no finetune or compress entry 'a'; there are: run"),
        ("b: {of: run}", "params.yaml: praise.b: no encode entry 'b'; there are: a"),
    ):
        (checkout / "params.yaml").write_text(GOOD + f"praise: {{{entry}}}\n")
        with pytest.raises(UsageError) as caught:
            checking.check()
        assert str(caught.value) == message


@pytest.mark.parametrize(
    "file", [ROOT / "params.yaml", *sorted((ROOT / "params").glob("*.yaml"))], ids=lambda p: p.name
)
def test_the_ready_made_files_are_right(file: Path) -> None:
    entries = checking.check(file)
    assert entries["evaluate"] or entries["pretrain"]  # a file trains something to be scored, or an encoder


def test_params_that_another_file_beside_them_has_may_be_replaced(checkout: Path) -> None:
    for name in ("eins", "zwei"):
        (checkout / f"{name}.yaml").write_text(f"# {name}\n{GOOD}")
    checking.activate(Path("eins.yaml"), False)
    checking.activate(Path("zwei.yaml"), False)
    assert (checkout / "params.yaml").read_text().startswith("# zwei\n")
    (checkout / "params.yaml").write_text(GOOD)
    with pytest.raises(UsageError, match="edits that are in no commit and no other params file, here or in params/"):
        checking.activate(Path("eins.yaml"), False)
    assert not list(checkout.glob(".*partial*"))
    (checkout / "linked.yaml").symlink_to("params.yaml")
    for file in ("params.yaml", "linked.yaml"):
        with pytest.raises(UsageError, match=rf"^{file} is the active params file already$"):
            checking.activate(Path(file), True)


def test_a_full_disk_leaves_the_active_params_as_they_were(checkout: Path) -> None:
    (checkout / "large.yaml").write_text(GOOD + "#" * 300_000)
    (place := checkout / "place").mkdir()
    with disks.small(place, 64 << 10), pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        Path("params.yaml").write_text(GOOD)
        with pytest.raises(OSError, match="No space left"):
            checking.activate(checkout / "large.yaml", True)
        assert Path("params.yaml").read_text() == GOOD
