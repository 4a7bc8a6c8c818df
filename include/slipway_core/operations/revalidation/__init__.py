"""Is what is live still what was released? Reports of that, and findings that stay open. Nothing is read here."""
