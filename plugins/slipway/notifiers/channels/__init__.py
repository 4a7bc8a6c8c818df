"""The channels by which people are told: a module for each."""
