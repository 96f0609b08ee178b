"""Export to ONNX, and the int8 layers of an export."""
