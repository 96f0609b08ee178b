"""Models: encoders and heads as Hugging Face models, and where each family has its layers."""
