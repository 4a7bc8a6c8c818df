"""What Slipway's workflows are made of: the release logic, pod programs, images, the sandbox."""
