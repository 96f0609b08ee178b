"""export: the ONNX opset, and how much ONNX may differ from torch."""

from typing import Annotated, ClassVar

from pydantic import Field

from pipelines.core.section import Positive, Section


class Export(Section):
    named_after: ClassVar = ("finetune", "compress", "pretrain", "import_weights")

    opset: Annotated[int, Field(ge=14)] = 18
    # maximum difference between logits of torch and ONNX. None: 1e-4 for every row; for int8, 0.1 for the median row
    tolerance: Positive | None = None
