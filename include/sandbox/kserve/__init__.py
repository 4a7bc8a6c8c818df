"""KServe, emulated: its Knative state machine over real tritonservers and a real Envoy."""
