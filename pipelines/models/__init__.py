"""Models: encoders and heads as Hugging Face models, and the places of layers in each family."""
