"""What is done after the release day: retention, windows and freezes, rejected versions."""
