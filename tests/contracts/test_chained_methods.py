"""Every method on teachers whose shapes their family's config cannot say: a folder that opens again, or one sentence.

A student may have other sizes than its teacher's layers, and what notes them must not follow it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.checkpoints import folder as model_folder
from pipelines.core import plugins
from pipelines.core.errors import UsageError
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import Torch
from pipelines.models import backbones, shapes
from tests.support import compressed, kinds, once

METHODS = plugins.names(compressed.METHODS)
RESHAPED: dict[str, tuple[str, str, dict[str, Any]]] = {  # of four layers: method, family, params
    "heads": ("prune_heads", "bert", {"share": 0.25, "epochs": 0}),
    "rows": ("prune_ffn", "electra", {"share": 0.25, "among": "model", "least": 8, "epochs": 0}),
    "heads of modernbert": ("prune_heads", "modernbert", {"share": 0.25, "epochs": 0}),
    "heads of albert": ("prune_heads", "albert", {"share": 0.5, "epochs": 0}),
    "shared": ("share_layers", "roberta", {"groups": 2, "epochs": 0}),
    "shared by modernbert": ("share_layers", "modernbert", {"epochs": 0}),
    "embedding": ("factorize_embeddings", "bert", {"size": 8, "epochs": 0}),
}
CUT = ("prune_heads", "prune_ffn", "theseus")  # methods that change each layer by itself
OF_HEADS = "heads: 2: the teacher has 1 or 2; every layer needs the same number, or set attention: 0"
SHARE = "it changes single layers, but layers of the teacher share weights; share the layers afterwards"
DIFFER = "layers of one group differ in the size of "
PAIRS = [
    *(
        ((name, reshaped), f"method: {name}: {SHARE}")
        for name in CUT
        for reshaped in ("shared", "shared by modernbert")
    ),
    *((("share_layers", reshaped), f"groups: {DIFFER}") for reshaped in ("heads", "rows", "heads of modernbert")),
    *(((name, reshaped), OF_HEADS) for name in ("tinybert", "mobile") for reshaped in ("heads", "heads of modernbert")),
]
SAID = dict(PAIRS) | {  # (method, teacher) -> what is said
    ("tinybert", "heads of albert"): "heads: 2: the teacher has 1; every layer needs the same number",
    ("mobile", "heads of albert"): "bottleneck: 8: the student has 11,043 parameters, the teacher 10,515",
    ("prune_heads", "heads of albert"): "share: 0.34 of 1 heads is less than one",
    ("factorize_embeddings", "embedding"): "size: the teacher's embedding is factorized already, to 8",
    **{
        (name, "heads of albert"): rf"out\.method: {name} does not take the albert family"
        for name in ("drop_layers", "share_layers")
    },
    ("theseus", "heads of albert"): "method: theseus: the layers of the albert family cannot be replaced one by one",
}
MORE = {"prune_heads": {"share": 0.34}, "prune_magnitude": {"sparsity": 0.5}}  # such that something is left


def reshaped(before: str, places: pytest.TempPathFactory) -> Path:
    """The folder of that teacher."""

    def make(place: Path) -> None:
        method, family, more = RESHAPED[before]
        compressed.teacher(family, "single", place / "whole", layers=4)
        compressed.compressed(method, place / "whole", "single", place / "teacher", **more)

    return once.made(places, f"teacher of {before}", make) / "teacher"


@pytest.mark.parametrize("before", RESHAPED)
@pytest.mark.parametrize("name", METHODS)
def test_a_teacher_with_pruned_heads_or_shared_layers_is_compressed_or_refused(
    name: str, before: str, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    teacher = reshaped(before, tmp_path_factory)
    assert shapes.of(model_folder.load_tuned(teacher)[0])
    places = (teacher, "single", checkout / "out")
    if message := SAID.get((name, before)):
        with pytest.raises(UsageError, match=rf"^params\.yaml: compress[:.] ?{message}"):
            compressed.compressed(name, *places, **MORE.get(name, {}))
        return
    student, _ = compressed.compressed(name, *places, **MORE.get(name, {}))
    in_memory = Predictor(Torch.of(student, kinds.TASKS["single"]), checkout / "out")
    expected, served = compressed.logits(in_memory), compressed.logits(Predictor.load(checkout / "out"))
    assert served.shape == (24, 3)
    assert served == pytest.approx(expected, abs=1e-6)
    assert np.ptp(served, axis=0).min() > 0, "rows differ"


@pytest.mark.parametrize(("groups", "again"), [(1, 2), (2, 3)])
def test_layers_that_share_weights_are_not_separated(groups: int, again: int, checkout: Path) -> None:
    """More groups than the teacher has would be named in config.json, and not be in the file."""
    compressed.teacher("roberta", "single", checkout / "whole", layers=4)
    compressed.compressed("share_layers", checkout / "whole", "single", checkout / "shared", groups=groups, epochs=0)
    before = ", ".join(map(str, shapes.divided(4, groups)))
    message = f"groups: {again} would separate layers of the teacher that share weights already, in the groups {before}"
    with pytest.raises(UsageError, match=message):
        compressed.compressed("share_layers", checkout / "shared", "single", checkout / "out", groups=again)


def test_a_mobile_student_has_the_uniform_head_count_of_its_teacher(checkout: Path) -> None:
    """config.json says two heads, its note one in each layer; attention is compared head by head."""
    compressed.teacher("bert", "single", checkout / "whole", layers=4)
    compressed.compressed("prune_heads", checkout / "whole", "single", checkout / "teacher", share=0.5, epochs=0)
    student, _ = compressed.compressed("mobile", checkout / "teacher", "single", checkout / "out")
    assert student.config.num_attention_heads == 1
    assert not shapes.of(student)


@pytest.mark.parametrize("name", ["distilbert", "pkd", "theseus"])
def test_a_student_begins_with_its_teachers_layers_as_they_are(name: str, checkout: Path) -> None:
    """Two of four layers with one or two heads: the student notes those of its own."""
    compressed.teacher("bert", "single", checkout / "whole", layers=4)
    compressed.compressed("prune_heads", checkout / "whole", "single", checkout / "teacher", share=0.25, epochs=0)
    teacher, _ = model_folder.load_tuned(checkout / "teacher")
    more = {"learning_rate": 1e-9, "weight_decay": 0.0}
    student, _ = compressed.compressed(name, checkout / "teacher", "single", checkout / "out", **more)
    places = [0, 2] if name == "distilbert" else [0, 1]
    before = shapes.of(teacher)["heads"]
    assert shapes.heads(student) == [before[i] for i in places]
    for mine, other in enumerate(places):
        layer, whole = (backbones.layers(model)[i].state_dict() for model, i in ((student, mine), (teacher, other)))
        assert all(tensor.numpy() == pytest.approx(whole[key].numpy(), abs=1e-6) for key, tensor in layer.items())
