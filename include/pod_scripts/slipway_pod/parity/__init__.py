"""Parity: how far the converted model's outputs are from the source's, and the rule that each output must meet.

Computes with arrays; reads no file and runs no model.
"""
