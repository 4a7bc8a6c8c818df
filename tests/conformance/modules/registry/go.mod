// Builds the registry of the CNCF's distribution project, as it is published, for the lane of images.
module slipway.dev/conformance/registry

go 1.26.0

require github.com/distribution/distribution/v3 v3.1.2
