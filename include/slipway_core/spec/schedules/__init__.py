"""When what a release file schedules is due."""
