"""Notices to people: the notice, who gets it, and its text. Values in, values out."""
