"""How a release begins: facts are read under the lock, the domain decides by them, and the record is opened."""
