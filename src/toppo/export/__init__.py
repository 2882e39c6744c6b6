"""Policies for use elsewhere: ONNX, NumPy."""
