"""KServe's Standard mode, emulated: a pure state machine, the worker that carries it out, and the Gateway's part."""
