"""What tests of the infrastructure's templates share."""
