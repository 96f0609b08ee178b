"""ELECTRA: a small generator replaces tokens, and an encoder learns from the result (Clark et al. 2020)."""

import copy
from typing import Any

import torch
from torch import nn
from transformers import ElectraForMaskedLM

from pipelines.core.errors import UsageError
from pipelines.models import backbones
from pipelines.models.batch import IGNORE, Batch, Prediction


class Replacing(nn.Module):
    """Generator and learner with shared embeddings; ids (B, T) have [MASK] in place of the selected tokens.

    Args:
        learner: ElectraForPreTraining for the variants that detect replaced tokens, else ElectraForMaskedLM.
        fraction: the generator's width as a share of the learner's; its embeddings are the learner's own.
        variant: see `objectives.replaced_token.Params`.
        weight: weight of the learner's loss (the paper's lambda); the generator's loss has weight 1.
    """

    def __init__(self, learner: Any, fraction: float, variant: str, weight: float) -> None:
        super().__init__()
        self.learner, self.variant, self.weight = learner, variant, weight
        self.generator = ElectraForMaskedLM(_smaller(learner.config, fraction))
        shared: Any = learner.base_model.embeddings
        self.generator.electra.embeddings = shared
        self.generator.generator_lm_head.weight = shared.word_embeddings.weight
        self.copy = nn.Linear(learner.config.hidden_size, 1) if variant == "all_tokens_mlm" else None

    @property
    def base_model(self) -> nn.Module:
        """The learner's encoder, under the name that transformers uses in every model."""
        return self.learner.base_model

    def forward(self, batch: Batch) -> list[Prediction]:
        """The generator's predictions, and the learner's predictions for the text that they complete."""
        labels, hidden_ids = batch["labels"], batch["input_ids"]
        selected = labels != IGNORE
        states = self.generator.electra(input_ids=hidden_ids).last_hidden_state[selected]
        guesses = backbones.mlm_logits(self.generator, states)  # (selected, V)
        originals = torch.where(selected, labels, hidden_ids)
        shown = originals.clone()
        shown[selected] = torch.multinomial(guesses.detach().float().softmax(dim=-1), 1)[:, 0]  # at temperature 1
        guessed = Prediction("generator", guesses, labels[selected], of="labels")
        return [guessed, self._learn(shown, originals, selected)]

    def _learn(self, shown: torch.Tensor, originals: torch.Tensor, selected: torch.Tensor) -> Prediction:
        states = self.learner.base_model(input_ids=shown).last_hidden_state  # (B, T, H)
        if self.variant in ("replaced", "electra_15"):
            logits = self.learner.discriminator_predictions(states)  # (B, T): positive for replaced tokens
            both = torch.stack([torch.zeros_like(logits), logits], dim=-1)  # same loss as with a sigmoid
            at, of = (selected, "labels") if self.variant == "electra_15" else (torch.ones_like(selected), "")
            return Prediction("replaced", both[at], (shown != originals).long()[at], self.weight, of)
        if self.variant == "replace_mlm":
            logits = backbones.mlm_logits(self.learner, states[selected])
            return Prediction("mlm", logits, originals[selected], of="labels")
        return Prediction("mlm", self._with_copying(states, shown), originals.flatten())

    def _with_copying(self, states: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        """Log-probabilities (B * T, V) of a softmax that may also copy the token it sees (section 3.4)."""
        assert self.copy is not None
        probabilities = backbones.mlm_logits(self.learner, states.flatten(0, 1)).float().softmax(dim=-1)
        share = self.copy(states.flatten(0, 1)).float().sigmoid()  # (B * T, 1)
        copied = nn.functional.one_hot(shown.flatten(), probabilities.shape[-1])
        return (share * copied + (1 - share) * probabilities).clamp(min=1e-9).log()


def _smaller(config: Any, fraction: float) -> Any:
    """The generator's config: as deep as the learner's, but narrower, with heads of the same size."""
    smaller = copy.deepcopy(config)
    width = round(config.hidden_size * fraction)
    smaller.num_attention_heads = max(1, round(config.num_attention_heads * fraction))
    if width < 1 or width % smaller.num_attention_heads:
        raise UsageError(
            f"params.yaml: pretrain: generator: {fraction} of hidden_size {config.hidden_size} is not divisible by "
            f"{smaller.num_attention_heads} heads"
        )
    smaller.hidden_size, smaller.intermediate_size = width, max(1, round(config.intermediate_size * fraction))
    return smaller
