"""Layers of quantized models: int8, quantize-dequantize, packed bits, and their stand-ins while training."""
