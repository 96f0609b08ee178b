"""Predictions with a model folder, in torch or ONNX Runtime."""
