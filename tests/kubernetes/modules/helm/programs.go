//go:build tools

// Package programs names Helm, so that go.mod and go.sum pin it.
package programs

import _ "helm.sh/helm/v3/cmd/helm"
