"""Copies of users' requests: received, sent to both versions, and the two answers compared.

Of what users sent it keeps a digest only; of the answers, only the numbers that differ.
"""
