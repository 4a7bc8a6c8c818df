//go:build tools

// Package tools names no program: only custom resources are taken from this module.
package tools
