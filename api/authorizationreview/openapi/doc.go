// Package openapi holds the generated OpenAPI definitions of the access reviews as Proviso serves them. They have the
// model names of Kubernetes' own definitions, whose place they take, and refer to others of them: merge them over the
// server's map.
package openapi
