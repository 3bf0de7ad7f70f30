// Package openapi shows field permissions in the OpenAPI v3 documents of the server, and so in `kubectl explain`
// (FP-3).
//
// Place in the request path: a filter behind authorization. Upstream builds a document per group version, caches it,
// and serves it under a URL with its hash. The filter adds the verbs to a copy, and includes them in the hash, so a
// client that has cached a document asks again when a permission changes. These documents decide nothing: a document
// that cannot be read passes unchanged.
package openapi
