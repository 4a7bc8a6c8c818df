"""Clients that send requests by a fixed schedule, and what they were answered. Used by the laboratory and the demo."""
