"""The validation report as a page, with examples of single answers."""
