"""What a model's file tells without being run, for those who begin a release file and those who check one."""
