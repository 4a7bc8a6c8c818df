"""What a model's file says without being run, for those who begin a release file and those who check one."""
