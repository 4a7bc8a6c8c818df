"""What S3 says has happened to objects, whether it came directly, by SNS, by EventBridge, or by several of them."""
