//go:build tools

// Package tools names the command that `make controlplane` builds.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
