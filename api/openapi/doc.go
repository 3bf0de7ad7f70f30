// Package openapi holds the OpenAPI definitions of Proviso's own API groups. Definitions returns them; they refer to
// the definitions of apimachinery, which the server's map already has, so merge the two maps.
package openapi

//go:generate ../../hack/generate.sh
