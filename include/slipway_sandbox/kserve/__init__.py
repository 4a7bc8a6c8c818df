"""KServe, emulated: the state machines of its two modes over real tritonservers and a real Envoy.

`controller` watches the InferenceServices and gives each a worker of its mode, `knative` or `standard`. The two modes
do not know each other: what both need lies beside them here.
"""
