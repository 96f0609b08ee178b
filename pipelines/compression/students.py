"""Students: a model of the teacher's family in other sizes, one with some of its layers, or a pretrained encoder."""

import copy
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict
from torch import nn
from transformers import PreTrainedModel

from pipelines.checkpoints import folder, formats, new_head, vocabulary
from pipelines.compression.context import Context
from pipelines.core import paths, seeding
from pipelines.core.errors import UsageError, one_line
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.section import Count
from pipelines.entries.parts.fit import Fit
from pipelines.models import backbones, shapes
from pipelines.text import tokenizer

FEED_FORWARD = ("intermediate_size", "hidden_dim", "d_inner")  # the config's name for the feed-forward width
SIZES = ("layers", "hidden_size", "heads", "intermediate_size")
SMALLER = "a student has fewer than its teacher"


class Sized(Fit):
    """The settings of a student of any size: its sizes, by default the teacher's, or a pretrained encoder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: Count | None = None
    hidden_size: Count | None = None
    heads: Count | None = None  # by default as many as keep the teacher's head size
    intermediate_size: Count | None = None  # by default in the teacher's proportion to hidden_size
    student: str = ""  # the folder of a pretrained encoder with the teacher's tokenizer, instead of sizes


def refused(key: str, value: object, why: str) -> UsageError:
    return UsageError(f"params.yaml: compress: {key}: {value}{why}")


def depth(model: nn.Module) -> int:
    """The number of layers that a sequence passes through; ALBERT's layers share weights but count each."""
    return int(backbones.encoder(model).config.num_hidden_layers)


def require_layers(teacher: PreTrainedModel, count: int) -> None:
    """Raise UsageError if `count` layers are fewer than the teacher's head reads."""
    features = getattr(teacher.config, "features", "last")
    if features.endswith("_four") and count < 4:
        raise UsageError(
            f"params.yaml: compress: the teacher's head reads {features}, and {count} layers remain; at least 4 must"
        )


def sized(context: Context, params: Sized) -> PreTrainedModel:
    """The student that `params` describes: with random weights, or a pretrained encoder with a new head."""
    sizes = {name: getattr(params, name) for name in SIZES if getattr(params, name) is not None}
    if params.student:
        if sizes:
            raise refused("student", params.student, f" has its own sizes; remove {', '.join(sizes)}")
        student = _pretrained(context, Path(params.student))
        require_smaller(student, context.teacher, "student", params.student)
        return student
    if not sizes:
        raise UsageError(
            f"params.yaml: compress: the student is as large as its teacher; set {', '.join(SIZES)} or student"
        )
    teacher, config = context.teacher, backbones.encoder(context.teacher).config
    for name, most in (("layers", depth(teacher)), ("hidden_size", config.hidden_size)):
        if sizes.get(name, 0) > most:
            raise refused(name, sizes[name], f": the teacher has {most}; a student takes at most as many")
    student = build(teacher, sizes, range(params.layers or depth(teacher)), context.seed)
    named = ", ".join(f"{name} {value}" for name, value in sizes.items())
    require_smaller(student, teacher, "student", named)
    return student


def require_smaller(student: nn.Module, teacher: PreTrainedModel, key: str, value: object, advice: str = "") -> None:
    """Raise UsageError unless the student has fewer parameters; the error names `key` and `value` as the reason."""
    if formats.of_model(teacher) not in formats.FLOATS:
        return  # rounded weights are not parameters, so there is no number to compare
    size, teacher_size = (sum(parameter.numel() for parameter in model.parameters()) for model in (student, teacher))
    if size >= teacher_size:
        raise refused(
            key, value, f": the student has {size:,} parameters, the teacher {teacher_size:,}; {advice or SMALLER}"
        )


def _pretrained(context: Context, place: Path) -> PreTrainedModel:
    """The encoder in `place` with a new head for the teacher's task.

    Raises UsageError if a stage of the graph makes the folder. The deps of dvc.yaml cannot name a folder that only some
    entries read, so the folder might be outdated or missing.
    """
    if paths.ARTIFACTS in place.parents:
        raise refused("student", place, f": the graph writes this folder; copy it to encoders/{place.name}")
    encoder = OpenedFolder(place)
    encoder.require_config()
    folder.require_tokenizer(place)
    if not vocabulary.same(tokenizer.load(encoder), context.tokenizer):
        raise refused("student", place, " has another vocabulary than the teacher; both must read the same ids")
    folder.check_fit(encoder, context.tokenizer.vocab_size, context.data.train.longest)
    torch.manual_seed(seeding.derive(context.seed, "student"))
    return new_head.for_task(encoder, context.task)


def shallower(context: Context, layers: list[int], kinds: list[int] | None = None) -> PreTrainedModel:
    """A student with the teacher's layers of these numbers, from 0, and all modules below and above them.

    Args:
        kinds: for each layer, the number of the teacher's layer whose type it has; by default `layers`.
    """
    teacher = context.teacher
    form = formats.of_model(teacher)
    if form not in formats.FLOATS:
        raise UsageError(
            f"params.yaml: compress: teacher: its weights are {form.words} and cannot be trained, so a student cannot "
            "start with its layers"
        )
    sources = _own_layers(teacher, layers)
    noted = backbones.of_layers(shapes.of(teacher), sources)
    student = build(teacher, {"layers": len(layers), "groups": len(sources)}, kinds or layers, context.seed, noted)
    take_over(student, teacher, sources)
    return student


def _own_layers(teacher: nn.Module, layers: list[int]) -> list[int]:
    """For each layer that a student owns, the number of the teacher's layer whose weights it gets.

    In ALBERT, the layers of a group share weights. The student has as few groups as possible, while each layer in
    `layers` keeps its weights.
    """
    groups = getattr(backbones.encoder(teacher).config, "num_hidden_groups", None)
    if groups is None:
        return layers
    every = shapes.divided(depth(teacher), groups)
    whose = [every[number] for number in layers]
    tried = (dict.fromkeys(zip(shapes.divided(len(layers), n), whose, strict=True)) for n in range(1, len(layers) + 1))
    pairs = next(pairs for n, pairs in enumerate(tried, start=1) if len(pairs) == n)
    return [group for _, group in pairs]


def build(
    teacher: PreTrainedModel, sizes: dict[str, int], layers: Any, seed: int, noted: dict[str, Any] | None = None
) -> PreTrainedModel:
    """A model like the teacher in these sizes, with random weights.

    Args:
        layers: for each layer, the number of the teacher's layer whose type it has; some families have several types.
        noted: the student's shapes that its family's config cannot express; by default none.
    """
    require_layers(teacher, len(layers))
    config: Any = copy.deepcopy(teacher.config)
    inner = getattr(config, "encoder", config)
    _resize(inner, sizes, [*layers])
    shapes.write(inner, noted or {})
    torch.manual_seed(seeding.derive(seed, "student"))
    try:
        width, heads = inner.hidden_size, inner.num_attention_heads
        if getattr(inner, "true_hidden_size", width) % heads:
            raise ValueError(f"hidden_size {width} is not divisible by {heads} heads")
        student = type(teacher)(config)
        shapes.take(student)
        with torch.inference_mode():  # only a forward pass shows that sizes do not fit together
            backbones.encoder(student.eval())(input_ids=torch.zeros(1, 2, dtype=torch.int64))
    except Exception as error:  # transformers and torch raise errors of any type
        named = ", ".join(f"{name} {sizes[name]}" for name in SIZES if name in sizes)
        raise UsageError(f"params.yaml: compress: no student can be built with {named}: {one_line(error)}") from error
    return student


def _resize(config: Any, sizes: dict[str, int], layers: list[int]) -> None:
    """Change the sizes in an encoder's config."""
    feed_forward = next((name for name in FEED_FORWARD if hasattr(config, name)), None)
    if not feed_forward and "intermediate_size" in sizes:
        raise refused("intermediate_size", sizes["intermediate_size"], f": the {config.model_type} family has none")
    width = config.hidden_size
    if "hidden_size" in sizes:
        config.hidden_size = sizes["hidden_size"]
        if not hasattr(config, "true_hidden_size"):  # MobileBERT's heads divide its bottleneck
            config.num_attention_heads = max(1, config.num_attention_heads * config.hidden_size // width)
        if feed_forward:
            setattr(config, feed_forward, getattr(config, feed_forward) * config.hidden_size // width)
    config.num_hidden_layers = len(layers)
    if hasattr(config, "num_hidden_groups"):  # ALBERT
        config.num_hidden_groups = min(sizes.get("groups", config.num_hidden_groups), len(layers))
    if "heads" in sizes:
        config.num_attention_heads = sizes["heads"]
    if feed_forward and "intermediate_size" in sizes:
        setattr(config, feed_forward, sizes["intermediate_size"])
    if hasattr(config, "d_head"):  # XLNet
        config.d_head = config.hidden_size // config.num_attention_heads
    if hasattr(config, "pooler_hidden_size"):  # DeBERTa
        config.pooler_hidden_size = config.hidden_size
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[i] for i in layers]


def take_over(student: PreTrainedModel, teacher: PreTrainedModel, sources: list[int]) -> None:
    """Copy the weights of the teacher's layers `sources` into the student's layers.

    The student's other weights are copied from the teacher's weights with the same name and shape.
    """
    inside = backbones.layers(student)
    prefix = next(name for name, module in student.named_modules() if module is inside)
    teacher_weights, student_weights = teacher.state_dict(), student.state_dict()
    for name, tensor in student_weights.items():
        place = name
        if name.startswith(f"{prefix}."):
            number, _, rest = name.removeprefix(f"{prefix}.").partition(".")
            place = f"{prefix}.{sources[int(number)]}.{rest}"
        if place in teacher_weights and teacher_weights[place].shape == tensor.shape:
            student_weights[name] = teacher_weights[place]
    student.load_state_dict(student_weights)
