"""The outputs that no score looks at, compared with the stable version's answers to the same golden rows."""
