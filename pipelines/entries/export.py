"""export: the ONNX opset, and how much ONNX may differ from torch."""

from typing import Annotated, ClassVar

from pydantic import Field

from pipelines.core.section import Positive, Section


class Export(Section):
    named_after: ClassVar = ("finetune", "compress")

    opset: Annotated[int, Field(ge=14)] = 18
    # by how much logits of torch and ONNX may differ: of any row 1e-4, or of the median row 0.1 where layers are int8
    tolerance: Positive | None = None
