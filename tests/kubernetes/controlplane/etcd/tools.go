//go:build tools

// Package tools names the command that `make controlplane` builds.
package tools

import _ "go.etcd.io/etcd/server/v3"
