"""The README.md of a model folder: a description, and code that opens it with transformers or bertline."""

from pathlib import Path

from transformers import PreTrainedModel

from pipelines.checkpoints.loading import OWN_WEIGHTS
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task

FILE = "README.md"
CARD = """\
# {model}

{what}
`provenance.json` lists what it was made from. bertline opens it wherever a model is named;
{how}

```python
{imports}

tokenizer = AutoTokenizer.from_pretrained(".")
model = {model}.from_pretrained(".")
```

If a text contains the name of a special token, such as `[SEP]`, transformers reads it as that token.
bertline reads it as text, unless `tokenizer_config.json` says `"special_tokens": "special"`.
"""
COMPRESSED = """\
# {model}

{what}
`provenance.json` lists what it was made from. bertline opens it wherever a model is named.
transformers does not support the format of its {form} weights. They are in `{weights}`, a file that
transformers does not read, so it cannot give wrong answers from them. `variant.json` lists the size
and the operations per token.
{beside}{opened}"""
BESIDE = """
The inputs of its linear layers are rounded by the range of the whole batch. The answer for a row may
depend on the other rows of its batch: if two labels are almost equally probable, either may win.
"""
OPENED = """
Use it where bertline's code can be imported:

```python
from pathlib import Path

from pipelines.inference.predictor import Predictor

predictor = Predictor.load(Path("."))
```

`predictor.predict(rows)` takes an Arrow table with {columns}.

An `export` entry writes the model as `model.onnx`, which onnxruntime opens without bertline. Its inputs
are `input_ids`, `attention_mask` and, if the model uses them, `token_type_ids`: int64 of shape (batch,
length). Its output is `logits`.
"""


def write(folder: Path, model: PreTrainedModel, form: str, task: Task | None) -> None:
    """Write the card of a model folder.

    Args:
        form: name of the format of the weights, from formats.FORMATS.
    """
    name, module = type(model).__name__, type(model).__module__
    theirs = module.startswith("transformers.")
    of = f"for rows of kind `{task.kind}`; `task.json` has its labels." if task else "without a head for rows."
    imports = f"from transformers import {', '.join(sorted(('AutoTokenizer', name)))}"
    if not theirs:
        imports = f"from {module} import {name}\nfrom transformers import AutoTokenizer"
    columns = " and ".join(f"`{column}`" for column in INPUTS[task.kind]) if task else ""
    text = (COMPRESSED if form else CARD).format(
        model=name,
        form=form,
        weights=OWN_WEIGHTS,
        what=f"A model of class `{name}`, {of}",
        how="transformers opens it with:" if theirs else "transformers opens it where bertline's code can be imported:",
        imports=imports,
        beside=BESIDE if form == "int8" else "",
        opened=OPENED.format(columns=columns) if task else "",
    )
    (folder / FILE).write_text(text, encoding="utf-8")
