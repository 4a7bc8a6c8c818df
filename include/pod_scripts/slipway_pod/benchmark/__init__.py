"""The load generators' frame: options, rounds in turns, figures, and the server that is measured.

Asks servers and starts load generators; converts no model.
"""
