"""What holds for a whole deployment: the environment variables of its parts."""
