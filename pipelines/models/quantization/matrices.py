"""The matrices of a model that quantization replaces: the weights of linear layers and the tables of embeddings."""

from torch import nn

from pipelines.core.errors import InputError, UsageError
from pipelines.models import backbones


def linears(model: nn.Module) -> dict[str, nn.Linear]:
    """Every linear layer by its name."""
    return {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}


def embeddings(model: nn.Module) -> dict[str, nn.Embedding]:
    """Every embedding by its name, except DeBERTa's relative positions, whose table the layers read directly."""
    read = {id(part) for above in backbones.top(model) for part in above.modules()}
    all_embeddings = {name: part for name, part in model.named_modules() if isinstance(part, nn.Embedding)}
    return {name: part for name, part in all_embeddings.items() if id(part) not in read}


def require_floats(model: nn.Module, method: str) -> None:
    """Raise InputError if no linear layer has float weights. To be called before any work."""
    if not linears(model):
        raise InputError(f"compress: {method}: the teacher has no linear layer of floats; is it already quantized?")


def require_all(model: nn.Module, method: str) -> None:
    """Raise InputError unless linear layers have float weights, and UsageError if layers have other weight matrices."""
    require_floats(model, method)
    family = backbones.encoder(model).config.model_type
    known = {id(part.weight) for part in (*linears(model).values(), *embeddings(model).values())}
    inside = {id(weight) for weight in backbones.layers(model).parameters()}
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and id(weight) in inside - known:
            raise UsageError(
                f"params.yaml: compress: method: {method} does not take the {family} family, whose layers keep weights "
                f"outside of linear layers, such as {name}; dynamic_int8 leaves these as they are"
            )


def replace(model: nn.Module, name: str, module: nn.Module) -> None:
    """Replace the module of this name inside `model`."""
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
