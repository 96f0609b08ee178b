"""One entry of params.yaml, and the keys in it that belong to a plugin."""

from pathlib import Path

import pytest

from pipelines.core import params
from pipelines.core.errors import UsageError
from pipelines.core.section import Count, PluginSection, Section


class Asked(PluginSection):
    plugin: str
    seed: int = 1


class Options(Section):
    layers: Count = 2
    seed: int = 5


def test_an_entry_is_found_by_its_name_or_the_names_are_said(checkout: Path) -> None:
    (checkout / "params.yaml").write_text("encode: {mine: {plugin: p}, other: {plugin: q, seed: 3}}")
    assert params.entry("encode", "other", Asked) == Asked(plugin="q", seed=3)
    with pytest.raises(UsageError) as caught:
        params.entry("encode", "mime", Asked)
    message = "params.yaml: encode: no entry 'mime' (did you mean 'mine'?); there are: mine, other"
    assert str(caught.value) == message


def test_keys_unknown_to_an_entry_belong_to_its_plugin() -> None:
    entry = Asked.model_validate({"plugin": "p", "layers": 4})
    assert params.options(entry, Options, "encode.mine") == Options(layers=4)
    assert params.options(entry, Options, "encode.mine", seed=entry.seed) == Options(layers=4, seed=1)
    assert params.options(entry, Options, "encode.mine", other=7) == Options(layers=4)
    with pytest.raises(UsageError, match=r"encode\.mine: no key 'layer' \(did you mean 'layers'\?\)"):
        params.options(Asked.model_validate({"plugin": "p", "layer": 4}), Options, "encode.mine")
    with pytest.raises(UsageError, match=r"no key 'sede' \(did you mean 'seed'\?\); there are: layers, plugin, seed$"):
        params.options(Asked.model_validate({"plugin": "p", "sede": 4}), Options, "encode.mine")
    with pytest.raises(UsageError, match=r"no key 'plugn' \(did you mean 'plugin'\?\)"):  # a key of the section alone
        params.options(Asked.model_validate({"plugin": "p", "plugn": "q"}), Options, "encode.mine")
    with pytest.raises(UsageError, match=r"encode\.mine\.layers: 0: input should be greater than or equal to 1"):
        params.options(Asked.model_validate({"plugin": "p", "layers": 0}), Options, "encode.mine")
