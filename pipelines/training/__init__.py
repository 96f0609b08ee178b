"""Training: batches, losses, optimizers, strategies, the loop, the loop on Ray Train, and fine-tuning."""
