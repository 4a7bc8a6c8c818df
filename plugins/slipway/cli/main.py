"""The entry point."""


def main() -> None:
    """Run the command."""
    print("x")
