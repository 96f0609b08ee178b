"""Bodies of the Open Inference Protocol: a request's tensors as columns of rows, and predictions as a body of tensors.

A body is JSON, or JSON and then the binary data of some tensors, in their order; a header has the length of the JSON.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.core.errors import InputError, choices
from pipelines.core.task import Task
from pipelines.serving import bodies, request_bodies, tensors
from pipelines.serving.served_model import ServedModel
from pipelines.serving.tensors import Described

LENGTH = "Inference-Header-Content-Length"  # the header with the length of the JSON, in bytes
MOST = 16  # inputs, outputs, or numbers in a shape; no model has as many
EXAMPLE: Any = {
    "inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["新型スマートフォンの予約開始"]}]
}
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Sent(BaseModel):
    """A part of a request. Unknown keys are ignored, as clients send some of their own."""

    model_config = ConfigDict(strict=True)


class InputParameters(Sent):
    binary_data_size: Count | None = None  # in bytes
    shared_memory_region: str | None = None  # refused


class RequestInput(Sent):
    name: str
    shape: Annotated[list[Count], Field(max_length=MOST)]
    datatype: str
    parameters: InputParameters | None = None
    data: list[Any] | None = None


class OutputParameters(Sent):
    binary_data: bool | None = None  # by default the request's binary_data_output
    classification: Count = 0  # how many labels, best first; 0: the scores themselves
    shared_memory_region: str | None = None  # refused


class RequestOutput(Sent):
    name: str
    parameters: OutputParameters | None = None


class RequestParameters(Sent):
    binary_data_output: bool = False
    timeout: Count = 0  # in microseconds; 0: only the service's own


class InferenceRequest(Sent):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: str | None = None
    parameters: RequestParameters | None = None
    inputs: Annotated[list[RequestInput], Field(max_length=MOST)]
    outputs: Annotated[list[RequestOutput] | None, Field(max_length=MOST)] = None  # by default all


class ResponseOutput(BaseModel):
    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, int] | None = None
    data: list[float] | list[int] | list[str] | None = None


class InferenceResponse(BaseModel):
    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[ResponseOutput]


class Returned(NamedTuple):
    """An output that a request names."""

    described: Described
    binary: bool
    classes: int  # how many labels of `scores`; 0: the scores themselves


def parsed(body: bytes, json_length: str | None) -> tuple[InferenceRequest, memoryview]:
    """The request in a body, and its binary data.

    Args:
        json_length: the value of the header LENGTH.

    Raises:
        InputError: the body is wrong; the message says where, but does not repeat the input.
    """
    head, binary = body, memoryview(b"")
    if json_length is not None:
        digits = json_length.isascii() and json_length.isdigit() and len(json_length) < 10
        if not digits or int(json_length) > len(body):
            raise InputError(f"the header {LENGTH} is not a number of bytes up to the body's {len(body)}")
        split = int(json_length)
        head, binary = body[:split], memoryview(body)[split:]
        bodies.check_keys(head)
    try:
        return request_bodies.validated(InferenceRequest, head), binary
    except ValidationError as error:
        raise InputError(request_bodies.sentence(error)) from None


def columns(sent: InferenceRequest, binary: memoryview, model: ServedModel) -> dict[str, list[Any]]:
    """The columns of the rows in a request's tensors. Raises InputError."""
    described, start = tensors.inputs(model.task), 0
    values: dict[str, list[Any]] = {}
    for tensor in sent.inputs:
        _check_name("input", tensor.name, described, values)
        size = tensor.parameters.binary_data_size if tensor.parameters else None
        part = None if size is None else binary[start : start + size]
        start += size or 0
        if start > len(binary):
            raise InputError(f"the input {tensor.name}: its binary data ends beyond the body")
        values[tensor.name] = _column(tensor, part, described[tensor.name])
    if start < len(binary):
        raise InputError(f"the last {len(binary) - start} bytes of the body belong to no input; see binary_data_size")
    if missing := [name for name in described if name not in values]:
        raise InputError(f"the input {missing[0]} is missing; {model.version} takes {', '.join(described)}")
    if len({len(column) for column in values.values()}) > 1:
        rows = ", ".join(f"{name} has {len(column)}" for name, column in values.items())
        raise InputError(f"the inputs have different numbers of rows: {rows}")
    return values


def _check_name(what: str, name: str, described: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Raise InputError if the model has no such tensor, or if it occurs in `before`."""
    if name not in described:
        raise InputError(choices(what, name, described))
    if name in before:
        raise InputError(f"the {what} {name} occurs twice")


def _column(tensor: RequestInput, part: memoryview | None, described: Described) -> list[Any]:
    """The column in one tensor, whose binary data is `part`."""
    place = f"the input {described.name}"
    if tensor.datatype != described.datatype:
        raise InputError(f"{place}: the datatype is {described.datatype}, and no other")
    if tensor.parameters and tensor.parameters.shared_memory_region is not None:
        raise InputError(f"{place}: shared memory is not supported")
    if (tensor.data is None) == (part is None):
        both = "neither data nor" if part is None else "both data and"
        raise InputError(f"{place}: it has {both} binary_data_size; it takes one of them")
    tensors.check_shape(tensor.shape, described)
    if part is not None:
        return tensors.column(tensors.from_bytes(part, tensor.shape, place), described)
    return tensors.column(tensors.from_json(tensor.data or [], tensor.shape, place), described)


def returned(sent: InferenceRequest, task: Task) -> list[Returned]:
    """The outputs that a request names, or all. Raises InputError for one that does not exist."""
    described = tensors.outputs(task)
    binary = bool(sent.parameters and sent.parameters.binary_data_output)
    if not sent.outputs:
        return [Returned(output, binary, 0) for output in described.values()]
    outputs: dict[str, Returned] = {}
    for output in sent.outputs:
        _check_name("output", output.name, described, outputs)
        options = output.parameters or OutputParameters()
        if options.shared_memory_region is not None:
            raise InputError(f"the output {output.name}: shared memory is not supported")
        if options.classification and output.name != "scores":
            raise InputError(f"the output {output.name}: classification is for the output scores")
        as_bytes = binary if options.binary_data is None else options.binary_data
        classes = min(options.classification, len(task.labels))
        outputs[output.name] = Returned(described[output.name], as_bytes, classes)
    return list(outputs.values())


def answer(
    request_id: str | None, model: ServedModel, outputs: list[Returned], predictions: list[dict[str, Any]]
) -> tuple[bytes, int | None]:
    """The body of a response, and the length of its JSON, or None if it is all JSON."""
    described, parts = [], []
    for output in outputs:
        tensor, values = output.described, tensors.elements(output.described, predictions)
        if output.classes:
            tensor = Described(tensor.name, tensors.BYTES, [-1, output.classes])
            values = tensors.classes(predictions, model.task.labels, output.classes)
        shape = [
            len(predictions),
            *(len(values) // len(predictions) if size == -1 else size for size in tensor.shape[1:]),
        ]
        about: dict[str, Any] = asdict(tensor) | {"shape": shape}
        if output.binary:
            parts.append(tensors.to_bytes(tensor.datatype, values))
            about["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            about["data"] = values
        described.append(about)
    head = {"model_name": model.name, "model_version": str(model.version.version), "outputs": described}
    text = orjson.dumps(head if request_id is None else head | {"id": request_id})
    return b"".join([text, *parts]), len(text) if parts else None
