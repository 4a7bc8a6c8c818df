"""A tuning as a page: what was tried, what no other setting beats, and the change that is proposed."""
