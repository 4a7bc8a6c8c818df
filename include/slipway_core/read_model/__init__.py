"""The read model: what pages, the command line and exported numbers show, folded from the records.

Documents and their fold are pure. The record stays the truth: a document may be lost, behind or damaged at any time,
and nothing that decides reads one.
"""
