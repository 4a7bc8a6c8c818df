"""What a sweep for new versions costs, in a bucket with the history of years."""
