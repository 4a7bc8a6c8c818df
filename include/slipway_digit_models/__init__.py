"""Models of handwritten digits, made from the data set that scikit-learn brings: for demo, samples and tests.

They need scikit-learn, skl2onnx and onnx, which `make setup` installs.
"""
