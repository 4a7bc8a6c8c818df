"""Who may: which version a release may begin with, and whether one that was admitted may raise its weight."""
