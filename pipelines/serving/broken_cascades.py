"""Put the champion in the place of a cascade that does not keep its agreement."""

from typing import TYPE_CHECKING

from pipelines.core.errors import one_line
from pipelines.core.progress import say

if TYPE_CHECKING:
    from pipelines.serving.catalogue import Catalogue


def settle(catalogue: "Catalogue") -> None:
    """Let the champion answer in place of each cascade that does not keep its agreement; end such a canary."""
    for model in catalogue:
        if (canary := model.canary) and (watch := canary.model.watch) and (cause := watch.broken()):
            canary.stop(cause)
        if not model.watch or not (cause := model.watch.broken()):
            continue
        try:
            catalogue.step_back(model.name, model.watch.composition.champion, cause)
        except Exception as error:  # of any type: the cascade keeps answering, and it is tried again
            if one_line(error) != model.watch.logged:
                say(f"{model.version} {cause}; it stays in use: {one_line(error)}")
            model.watch.logged = one_line(error)
