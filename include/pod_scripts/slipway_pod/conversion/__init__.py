"""What the converters share: their frame and run, precision, rewriting of ONNX models, sources that pass through."""
