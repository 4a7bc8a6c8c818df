"""Pages that are read: the overview, a model, two versions beside each other, the calendar, the audit, evidence.

A page shows what the read model says. It decides nothing, and it never lists the bucket.
"""
