"""A folder of a model or a tokenizer: opened once, handed on, and each of its small files read once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.core import json_file
from pipelines.core.errors import InputError, shown
from pipelines.core.task import Task

CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
# the keys of a tokenizer's config that are read -> their types
READ: dict[str, tuple[type, ...]] = {
    "tokenizer_class": (str,),
    "word_tokenizer_type": (str,),
    "subword_tokenizer_type": (str,),
    "mecab_kwargs": (dict,),
    **dict.fromkeys(("do_lower_case", "strip_accents", "tokenize_chinese_chars"), (bool,)),
    "model_max_length": (int, float),
    "bertline": (dict,),
    "bertline_tokenizer": (str,),
    **dict.fromkeys(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), (str, dict)),
}


@dataclass(frozen=True)
class OpenedFolder:
    """A folder with its files as they were when they were first needed; open it again after they were changed."""

    path: Path

    @classmethod
    def of(cls, folder: "Path | OpenedFolder") -> "OpenedFolder":
        """The folder, opened unless it is already."""
        return folder if isinstance(folder, OpenedFolder) else cls(folder)

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def require_config(self) -> None:
        """Raise InputError if there is no config.json."""
        if not (self / CONFIG).is_file():
            raise InputError(f"{self}: no {CONFIG}; it is not a model folder")

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """config.json. Raises InputError if there is none."""
        self.require_config()
        return json_file.mapping(self / CONFIG)

    @cached_property
    def encoder_config(self) -> Mapping[str, Any]:
        """The config of the encoder, also under a head of ours; {} if there is no config.json."""
        path = self / CONFIG
        config = self.config if path.is_file() else {}
        encoder = config.get("encoder", config)
        if not isinstance(encoder, dict):
            raise InputError(f"{path}: encoder is {shown(encoder)}; the config of an encoder is expected")
        for key in ("vocab_size", "max_position_embeddings", "pad_token_id"):
            if encoder.get(key) is not None and type(encoder[key]) is not int:
                raise InputError(f"{path}: {key} is {shown(encoder[key])}; a whole number is expected")
        return encoder

    @cached_property
    def tokenizer_config(self) -> Mapping[str, Any]:
        """tokenizer_config.json. Raises InputError if there is none."""
        path = self / TOKENIZER_CONFIG
        if not path.is_file():
            raise InputError(f"{self}: no {TOKENIZER_CONFIG}; the folder has no tokenizer")
        config = json_file.mapping(path)
        for key, kinds in READ.items():
            if config.get(key) is not None and not isinstance(config[key], kinds):
                raise InputError(f"{path}: {key} is {shown(config[key])}; {kinds[0].__name__} is expected")
        return config

    @cached_property
    def task(self) -> Task:
        """task.json. Raises InputError if there is none."""
        return Task.load(self.path)


Folder = Path | OpenedFolder  # of functions that are called with either
