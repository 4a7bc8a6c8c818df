"""Two versions beside each other: what was published, what the gates measured, and what of it is better or worse."""
