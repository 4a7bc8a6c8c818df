"""A scorer of the user's own: run in a process of its own, its scores checked before anybody reads them."""
