"""The initial model of fine-tuning: the encoder of a folder with a new head for a task."""

from typing import Any

import torch
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel

from pipelines.checkpoints import loading
from pipelines.core.errors import InputError, UsageError
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.models import backbones, heads
from pipelines.models.features import FeaturesConfig, FeaturesModel


def for_task(
    encoder_folder: Folder, task: Task, head: str = "native", pooling: str | None = None, features: str = "last"
) -> PreTrainedModel:
    """The encoder in `encoder_folder` with a new head for `task`: "native", or our own "linear", "mlp" or "bilstm".

    The folder may hold a fine-tuned model, whose head is dropped (Phang et al. 2018 fine-tune twice).

    Args:
        pooling: "cls", "mean" or "compare"; None: our heads read [CLS], a native head keeps its family's default.
    """
    if pooling == "compare" and task.kind not in ("pair", "regression"):
        raise _refused("pooling", pooling, f"rows of kind {task.kind} do not have two texts to compare")
    if head == "native":
        return _native(OpenedFolder.of(encoder_folder), task, pooling, features)
    return _ours(encoder_folder, task, head, pooling or "cls", features)


def _refused(key: str, value: str | None, why: str) -> UsageError:
    return UsageError(f"params.yaml: finetune: {key}: {value}: {why}")


def _ours(folder: Folder, task: Task, head: str, pooling: str, features: str) -> PreTrainedModel:
    """Our head on the encoder of `folder`."""
    auto = heads.AUTO[task.kind]
    if auto not in heads.OURS:
        raise _refused("head", head, f"rows of kind {task.kind} support only the native head")
    body = encoder(folder)
    if features.endswith("_four") and len(backbones.layers(body)) < 4:
        raise _refused("features", features, f"the encoder has {len(backbones.layers(body))} layers")
    model: Any = heads.OURS[auto](FeaturesConfig(body.config, features, head, pooling, **heads.names(task)))
    model.encoder.load_state_dict(body.state_dict(), strict=False)  # our model has no pooler
    return model


def _native(folder: OpenedFolder, task: Task, pooling: str | None, features: str) -> PreTrainedModel:
    """transformers' model for the task with the encoder of `folder`; a head in the folder is ignored."""
    tuned = encoder(folder) if (folder / TASK_FILE).is_file() else None
    config = tuned.config if tuned else loading.config(folder)
    family, auto, names = config.model_type, heads.AUTO[task.kind], heads.names(task)
    if features != "last":
        raise _refused("features", features, "the native head reads the last layer; set head to linear, mlp or bilstm")
    chooses = auto is AutoModelForSequenceClassification and hasattr(config, backbones.POOLING)
    if chooses and pooling in ("cls", "mean"):
        names[backbones.POOLING] = pooling
    elif pooling not in (None, "cls"):
        why = f"the {family} family's native head does not support it for rows of kind {task.kind}"
        raise _refused("pooling", pooling, f"{why}; set head to linear, mlp or bilstm")
    if family == "xlnet" and task.kind not in ("span", "tagging"):
        names["summary_type"] = "first"  # where bertline puts [CLS]; XLNet's default, the last, may be padding
    config.update(names)
    try:
        if not tuned:
            model = loading.with_encoder(auto, folder, config)[0]
            if not _has_head(folder, model):
                return model
            tuned = backbones.encoder(model)
        config.dtype = torch.float32  # as in `loading.opened`, whatever dtype the folder has
        model = auto.from_config(config)
    except ValueError as error:
        if loading.NO_SUCH_HEAD not in str(error):
            raise
        raise InputError(f"{folder}: the {family} family has no head of its own for rows of kind {task.kind}") from None
    backbones.encoder(model).load_state_dict(tuned.state_dict(), strict=False)  # some have no pooler
    return model


def _has_head(folder: OpenedFolder, model: PreTrainedModel) -> bool:
    """Return whether the folder's weights have all parameters above the encoder, because another tool fine-tuned it."""
    inside = {id(p) for p in backbones.encoder(model).parameters()}
    above = {name for name, p in model.named_parameters() if id(p) not in inside}
    return above <= loading.header(folder / loading.WEIGHTS, folder.path).sizes.keys()


def encoder(folder: Folder) -> Any:
    """The encoder of a folder, without the head that it may have been fine-tuned with."""
    folder = OpenedFolder.of(folder)
    config = loading.config(folder)
    auto = FeaturesModel if config.model_type == FeaturesConfig.model_type else AutoModel
    return backbones.encoder(loading.with_encoder(auto, folder, config)[0])
