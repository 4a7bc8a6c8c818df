//go:build tools

// Package tools names the programs that are built from this module, so that its go.sum covers them.
package tools

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
)
