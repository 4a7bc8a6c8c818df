"""Clients that send requests by a fixed schedule, and what they were answered. Used by the laboratory and the demo.

`OpenLoad` starts them as a process of their own; `request_set` says what they send, `answers` what came back.
"""
