"""How soon the pages of many models are there."""
