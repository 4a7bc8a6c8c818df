"""Golden rows as requests over gRPC, as users of a model with `rollout.protocol: grpc` send them."""
