"""KServe's Knative mode, emulated: a pure state machine, and the worker that carries it out."""
