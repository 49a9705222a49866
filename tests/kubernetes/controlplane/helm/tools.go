//go:build tools

// Package tools names the command that `make controlplane` builds.
package tools

import _ "helm.sh/helm/v4/cmd/helm"
