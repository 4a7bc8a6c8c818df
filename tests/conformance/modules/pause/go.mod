// Builds the first process of a pod's namespaces, for machines on which no package brings one.
module slipway.dev/conformance/pause

go 1.26.0
