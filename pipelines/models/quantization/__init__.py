"""Layers of quantized models: int8, quantize-dequantize, packed bits, and fake quantization for training."""
