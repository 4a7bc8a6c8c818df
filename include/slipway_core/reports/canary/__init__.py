"""The evidence of a canary, as a document and as a page with charts."""
