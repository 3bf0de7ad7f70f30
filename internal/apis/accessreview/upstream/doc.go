// Package upstream compares the access reviews with Kubernetes' own, over HTTP and byte for byte. It is separate from
// the package it tests because Kubernetes' registry takes long to link.
package upstream
