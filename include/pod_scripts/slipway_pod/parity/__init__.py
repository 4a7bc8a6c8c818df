"""Parity: the converted model's outputs held against the source's."""
