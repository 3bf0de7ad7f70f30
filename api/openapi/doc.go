// Package openapi holds the generated OpenAPI definitions of Proviso's own API groups. They refer to the definitions of
// apimachinery, which the server's map already has: merge the two maps.
package openapi
