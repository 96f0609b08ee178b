"""One training step for everything: batches, optimizers, strategies, the loop, and the loop on Ray."""
