"""Which parts answer that a release needs: asked beside the pages, and shown in the header of each."""
