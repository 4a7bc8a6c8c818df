// Custom resources of the Prometheus operator, for the manifests in include/manifests/monitoring. Builds no program.
module slipway.dev/conformance/monitoring

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
