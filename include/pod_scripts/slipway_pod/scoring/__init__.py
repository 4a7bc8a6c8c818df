"""A scorer of the user's own: run in a separate process, its scores checked before anybody reads them."""
