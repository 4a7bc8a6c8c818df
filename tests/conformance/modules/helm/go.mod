// Builds Helm, for the chart's tests and for `make manifests`, as it is published.
module slipway.dev/conformance/helm

go 1.26.0

require helm.sh/helm/v4 v4.3.1
