"""The audit: what people did, read from the records and from what lies beside them, within limits.

Nothing here writes, and no request lists the whole bucket: a request reads the records that changed within the time
that it asks for, up to a number, and keeps what it has read.
"""
