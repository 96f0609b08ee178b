"""What fine-tuning starts from: the encoder of a folder with a new head for a task."""

from pathlib import Path
from typing import Any

from transformers import AutoModel, PreTrainedModel

from pipelines.checkpoints import loading
from pipelines.core.errors import InputError, UsageError
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.models import backbones, heads
from pipelines.models.features import FeaturesConfig, FeaturesModel


def for_task(
    encoder_folder: Path, task: Task, head: str = "native", pooling: str = "cls", features: str = "last"
) -> PreTrainedModel:
    """The encoder in `encoder_folder` with a new head for `task`: "native", or our own "linear", "mlp" or "bilstm".

    The folder may hold a fine-tuned model, whose head is dropped (Phang et al. 2018 fine-tune twice).
    """
    names, auto = heads.names(task), heads.AUTO[task.kind]
    if pooling == "compare" and task.kind not in ("pair", "regression"):
        raise UsageError(
            f"params.yaml: finetune: pooling: compare: rows of kind {task.kind} have no two texts to compare"
        )
    for name, value, own in (("pooling", pooling, "cls"), ("features", features, "last")):
        if head == "native" and value != own:
            raise UsageError(f"params.yaml: finetune: {name}: {value}: the native head has its own; name one of ours")
    if head != "native":
        if auto not in heads.OURS:
            raise UsageError(f"params.yaml: finetune: head: {head}: rows of kind {task.kind} take the native head")
        body = opened(encoder_folder)
        if features.endswith("_four") and len(backbones.layers(body)) < 4:
            count = len(backbones.layers(body))
            raise UsageError(f"params.yaml: finetune: features: {features}: the encoder has {count} layers")
        model: Any = heads.OURS[auto](FeaturesConfig(body.config, features, head, pooling, **names))
        model.encoder.load_state_dict(body.state_dict(), strict=False)  # our model has no pooler
        return model
    return _native(auto, encoder_folder, task, names)


def _native(auto: Any, folder: Path, task: Task, names: dict[str, Any]) -> PreTrainedModel:
    """The model of transformers' class `auto` with the encoder of `folder`; a head in the folder is not used."""
    tuned = opened(folder) if (folder / TASK_FILE).is_file() else None
    config = tuned.config if tuned else loading.config(folder)
    family = config.model_type
    if family == "xlnet" and task.kind not in ("span", "tagging"):
        names["summary_type"] = "first"  # our place of [CLS]; XLNet's own is the last, which padding may take
    try:
        if not tuned:
            return loading.with_encoder(auto, folder, **names)[0]
        config.update(names)
        model = auto.from_config(config)
    except ValueError as error:
        if loading.NO_SUCH_HEAD not in str(error):
            raise
        raise InputError(f"{folder}: the {family} family has no head of its own for rows of kind {task.kind}") from None
    backbones.encoder(model).load_state_dict(tuned.state_dict(), strict=False)  # some have no pooler
    return model


def opened(folder: Path) -> Any:
    """The encoder of a folder, without the head that it may have been fine-tuned with."""
    ours = loading.config(folder).model_type == FeaturesConfig.model_type
    return backbones.encoder(loading.with_encoder(FeaturesModel if ours else AutoModel, folder)[0])
