"""What an entry of each section of params.yaml may hold."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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

    # Ray Train workers; 0 trains in the stage's own process; [least, most] takes as many as the cluster has room for
    workers: Annotated[int, Field(ge=0)] | tuple[Count, Count] = 0
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
    # what our head sees of a sequence: the [CLS] vector, the mean of all, or the means of its two texts, compared
    pooling: Literal["cls", "mean", "compare"] = "cls"
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


class Scored(Section):
    """What is predicted and scored."""

    task: str
    split: str = "test"
    slices: dict[str, str] = {}  # of the rows, by name: a regular expression that a text of the row must hold


class Range(Section):
    """Numbers from `low` to `high`, drawn evenly, or evenly in their logarithm; whole ones where both ends are."""

    low: float | int
    high: float | int
    log: bool = False

    @model_validator(mode="after")
    def _rises(self) -> "Range":
        if self.low >= self.high or (self.log and self.low <= 0):
            raise ValueError(f"low {self.low} must be under high {self.high}, and over 0 where log is set")
        return self


class Tune(Section):
    """A search for the params of the finetune entry of the same name."""

    search: Annotated[dict[str, Range | list[Any]], Field(min_length=1)]  # a key of finetune -> a range, or the choices
    split: str = "dev"  # trials are scored on it by the task's metric; never the one that evaluate scores
    trials: Count = 20
    sampler: Literal["tpe", "random", "grid"] = "tpe"  # tpe: Bergstra et al. 2011; grid: every combination of choices
    seed: Annotated[int, Field(ge=0)] = 1


class Floor(Scored):
    """What needs no network, on the same rows (see inference/floor.py): a model must beat it to be worth its cost."""

    ngrams: tuple[Count, Count] = (1, 3)  # lengths, in characters
    c: Positive = 1.0  # of the SVM
    seed: Annotated[int, Field(ge=0)] = 1


class Check(Section):
    """What a model must do whatever its score (Ribeiro et al. 2020, CheckList); one of `rows`, `same` and `moves`."""

    at_least: Fraction = 1.0  # share of the rows that must pass
    rows: list[dict[str, Any]] = []  # minimum functionality: inputs, and beside them what is to be said
    # invariance and direction: how each text of the split is changed; rows that stay as they are do not count
    replace: dict[str, str] = {}  # regular expressions -> what stands there then
    write: Literal["", "upper", "lower", "full_width"] = ""
    columns: list[str] = []  # the texts to change; empty: all of the kind's inputs
    # direction: the label whose probability may not fall ("up") or rise ("down"); "value" is a regression's number
    moves: dict[str, Literal["up", "down"]] = {}
    tolerance: Annotated[float, Field(ge=0)] = 0.0  # by how much a number may go the wrong way, or a value change


class Evaluate(Scored):
    behaviour: dict[str, Check] = {}


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
    "tune": Tune,
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
