"""Models of KServe's two modes and recorded canaries, as plain values: no process, no clock, no network.

Tests and the fuzzer step through them thousands of times. Nothing here starts a server or reads a file.
"""
