"""The channels by which people are notified: a module for each."""
