"""The outputs that no score looks at, held against the stable version's answers to the same golden rows."""
