"""Fitted estimators and boosters by library: how each is read, described, converted to ONNX and asked.

A library is imported in the function that needs it: one image holds them all, and a pod uses one.
"""
