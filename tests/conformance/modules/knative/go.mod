// Builds Knative Serving's controller and autoscaler. Not together with KServe: the versions that both want do not compile.
module slipway.dev/conformance/knative

go 1.24.0

require knative.dev/serving v0.48.1

