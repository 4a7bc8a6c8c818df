"""What people read: pages, figures, texts, made of what was measured and recorded.

Nothing decides by a report, and no package below knows one.
"""
