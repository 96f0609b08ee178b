"""params.yaml, read and checked: every entry of every stage, with errors that name the key and the choices."""

from collections.abc import Hashable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.core.errors import UsageError, choices

FILE = Path("params.yaml")
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """One entry; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PluginSection(Section):
    """An entry whose further keys belong to the plugin that it names; see `options`."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Resources(Section):
    """How fast, never what: no stage lists these under its DVC params."""

    workers: Annotated[int, Field(ge=0)] = 0  # Ray Train workers; 0 trains in the stage's own process
    gpus: Annotated[float, Field(ge=0)] = 0  # per worker
    threads: Annotated[int, Field(ge=0)] = 0  # per worker, for torch and for encode's processes; 0 lets torch choose
    # auto: bf16 on a GPU, fp32 without one; bf16 pays on a CPU that has AVX512-BF16 or AMX, and costs on any other
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    cache_gb: Annotated[float, Field(ge=0)] = 4  # disk for the states of layers that do not train; 0 keeps none
    max_failures: Annotated[int, Field(ge=-1)] = 2  # how often Ray Train restarts dead workers; -1 for ever
    checkpoint_minutes: Positive = 5


class Ingest(Section):
    corpus: str
    edition: str = "official"  # a key of the corpus's SOURCES
    only: list[str] = []  # files to do without the others, where a mirror has no more


class Expect(Section):
    """What rows must be like; the graph stops where they are not."""

    min_rows: Annotated[int, Field(ge=0)] = 1  # in each split
    max_empty: Fraction = 1.0  # share of rows without text
    max_duplicates: Fraction = 1.0  # share of rows that repeat another of their split
    max_near_duplicates: Fraction = 1.0  # share of rows much like another of their split (of the rows looked at)
    max_unmatched: Fraction = 1.0  # share of rows with an answer that is not what stands at its place
    no_leakage: bool = False  # no text in two splits
    warn: bool = False  # say what is not met, and go on


class Prepare(PluginSection):
    corpus: str
    source: str  # the folder or file to read: artifacts/raw/NAME, or a path of your own
    task: str = ""  # a key of the corpus's TASKS, where it has any
    splits: list[str] = []  # those of the task's to take; empty takes all
    sample: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of rows to take, drawn by their ids
    expect: Expect = Expect()


class BuildVocab(PluginSection):
    rows: str
    tokenizer: str
    size: Annotated[int, Field(ge=16)]


class ImportWeights(Section):
    source: str  # a Hugging Face folder, or a name on the hub


class Encode(Section):
    task: str
    vocab: str  # a folder with tokenizer files: artifacts/vocab/NAME, or any model folder
    max_length: Annotated[int, Field(ge=4)]
    stride: Count = 128  # kind span: tokens of the context from the start of one window to the start of the next


class Fit(PluginSection):
    """How a model is trained; shared by pretraining, fine-tuning and the methods that train."""

    epochs: Positive = 3
    batch_size: Count = 32  # rows (sequences, in pretraining), over all workers
    optimizer: Literal["adamw", "sgd"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0, lt=10)] = 2e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0  # sgd
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    warmup: Fraction = 0.1  # share of the steps
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0  # 0 does not clip
    accumulate: Count = 1  # parts that a batch is taken in, one after another: less memory, the same update
    looks: Count = 10  # how often, over the whole training, the model is scored on what it does not train on
    patience: Annotated[int, Field(ge=0)] = 0  # looks without a better score after which training ends; 0 never
    seed: Annotated[int, Field(ge=0)] = 1


class Finetune(Fit):
    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str
    encoder: str  # a model folder: artifacts/models/NAME, encoders/NAME
    head: Literal["native", "linear", "mlp", "bilstm"] = "native"  # the family's own head, or one of ours
    pooling: Literal["cls", "mean"] = "cls"  # what our head sees of a sentence: the [CLS] vector, or the mean of all
    features: Literal["embeddings", "second_to_last", "last", "sum_last_four", "concat_last_four", "weighted_sum"] = (
        "last"  # the layers that our head reads
    )
    strategy: Literal["full", "top_k", "frozen"] = "full"
    top_k: Count = 2
    layer_learning_rates: list[Positive] = []  # from the top layer down; empty takes learning_rate for each
    head_learning_rate: Positive | None = None  # None takes learning_rate
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0  # full: a layer's rate as a share of the next one's above
    class_weights: Literal["equal", "balanced"] = "equal"  # balanced: every class counts as much as any other
    dev: str = ""  # a split to look at while training: the weights that score best on it are kept
    max_train_rows: Annotated[int, Field(ge=0)] = 0  # drawn with the seed, for a quick look; 0 trains on all
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0


class Pretrain(Fit):
    data: str
    start: str  # a model folder to continue from, or a JSON file of a config, for random weights
    objective: str
    config: dict[str, Any] = {}  # changes to the config, by its own names: num_hidden_layers, hidden_size, ...


class Compress(PluginSection):
    teacher: str
    data: str
    method: str


class Floor(Section):
    """What needs no network, on the same rows (see inference/floor.py): a model must beat it to be worth its cost."""

    task: str
    split: str = "test"
    ngrams: tuple[Count, Count] = (1, 3)  # lengths, in characters
    c: Positive = 1.0  # of the SVM
    seed: Annotated[int, Field(ge=0)] = 1


class Evaluate(Section):
    task: str
    split: str = "test"


class Export(Section):
    opset: Annotated[int, Field(ge=14)] = 18
    tolerance: Positive = 1e-4  # the largest difference of a logit between torch and ONNX


class Promote(Section):
    """What a challenger must show, on the same rows, before it serves under this registered name."""

    run: str  # the run that retrain registers
    at_least: Fraction = 0.0  # of the task's metric
    may_lose: Fraction = 0.0  # against the champion
    max_latency_ratio: Positive | None = None  # against the champion's


SECTIONS: dict[str, type[Section]] = {
    "ingest": Ingest,
    "prepare": Prepare,
    "build_vocab": BuildVocab,
    "import_weights": ImportWeights,
    "encode": Encode,
    "pretrain": Pretrain,
    "finetune": Finetune,
    "compress": Compress,
    "floor": Floor,
    "evaluate": Evaluate,
    "export": Export,
    "promote": Promote,
}
# (section, key) -> the sections whose entries it may name
REFERENCES: dict[tuple[str, str], tuple[str, ...]] = {
    ("build_vocab", "rows"): ("prepare",),
    ("encode", "task"): ("prepare",),
    ("pretrain", "data"): ("encode",),
    ("finetune", "data"): ("encode",),
    ("compress", "data"): ("encode",),
    ("compress", "teacher"): ("finetune", "compress"),
    ("floor", "task"): ("prepare",),
    ("evaluate", "task"): ("prepare",),
    ("promote", "run"): ("finetune", "compress"),
}
FREE = {"resources", "defaults"}  # `defaults` is a place for YAML anchors

S = TypeVar("S", bound=BaseModel)


def parse(model: type[S], values: Any, where: str, file: Path = FILE) -> S:
    """`values` as a `model`, or one sentence: file, key, what was wrong, what there is."""
    if not isinstance(values, dict):
        raise UsageError(f"{file}: {where}: {values!r} is not a mapping of keys to values")
    try:
        return model.model_validate(values)
    except ValidationError as invalid:
        first = invalid.errors()[0]
    place = ".".join(map(str, (where, *first["loc"])))
    if first["type"] == "extra_forbidden":
        raise UsageError(f"{file}: {where}: {choices('key', first['loc'][-1], model.model_fields)}")
    if first["type"] == "missing":
        raise UsageError(f"{file}: {place}: missing, and it has no default")
    raise UsageError(f"{file}: {place}: {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}")


def options(entry: BaseModel, plugin: type[S], where: str) -> S:
    """The keys of `entry` that its plugin owns, checked by the plugin's own Params."""
    return parse(plugin, entry.model_extra or {}, where)


def read(file: Path = FILE) -> dict[str, Any]:
    """The whole file as plain values; a key that stands twice is an error."""
    try:
        values = yaml.load(file.read_text(encoding="utf-8"), _Loader) or {}
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file; stages run at the root of a checkout") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{file}: it must map section names to entries")
    for section in values:
        if section not in SECTIONS and section not in FREE:
            raise UsageError(f"{file}: {choices('section', section, {*SECTIONS, *FREE})}")
    return values


def entry(section: str, name: str, model: type[S], file: Path = FILE) -> S:
    """One checked entry, such as `entry("finetune", "livedoor", Finetune)`."""
    there_are = read(file).get(section) or {}
    if name not in there_are:
        raise UsageError(f"{file}: {section}: {choices('entry', name, there_are)}")
    return parse(model, there_are[name], f"{section}.{name}", file)


def resources(file: Path = FILE) -> Resources:
    return parse(Resources, read(file).get("resources") or {}, "resources", file)


def check(file: Path = FILE) -> dict[str, dict[str, Section]]:
    """Every entry of the file, checked, with the names that entries use of each other."""
    values = read(file)
    resources(file)
    checked = {
        section: {
            name: parse(model, item, f"{section}.{name}", file) for name, item in (values.get(section) or {}).items()
        }
        for section, model in SECTIONS.items()
    }
    for (section, key), targets in REFERENCES.items():
        names = [name for target in targets for name in checked[target]]
        for name, item in checked[section].items():
            if getattr(item, key) not in names:
                wrong = choices(" or ".join(targets) + " entry", getattr(item, key), names)
                raise UsageError(f"{file}: {section}.{name}.{key}: {wrong}")
    _check_runs(checked, file)
    return checked


def _check_runs(checked: dict[str, dict[str, Section]], file: Path) -> None:
    models = [*checked["finetune"], *checked["compress"]]
    for section in ("evaluate", "export"):
        for name in checked[section]:
            if name not in models:
                raise UsageError(f"{file}: {section}.{name}: {choices('finetune or compress entry', name, models)}")


class _Loader(yaml.SafeLoader):
    """YAML's own loader, but a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.MarkedYAMLError(problem=f"the key {min(twice)!r} stands twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)
