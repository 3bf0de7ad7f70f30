//go:build server

// Package older pins what a stock kube-apiserver 1.35 is built from.
package older

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
