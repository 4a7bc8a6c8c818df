"""How much a tuning gains on the sandbox's digits model: a real tritonserver, real perf_analyzer."""
