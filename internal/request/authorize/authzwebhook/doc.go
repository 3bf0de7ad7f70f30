// Package authzwebhook is an authorizer that asks a webhook and accepts conditions for an answer (CA-17).
//
// Place in the request path: a link of the authorizer chain. Where the answer may depend on the object, the webhook is
// told that conditions are understood, and what it answers is resolved in admission: conditions of the built-in CEL
// type in process, all others by the webhook's conditions endpoint. A webhook for which no such endpoint is configured
// is asked what upstream asks; conditions that it answers all the same are never ignored.
//
// Nothing here can turn a failure into an Allow. What the webhook's failure policy leaves open is only whether a
// failure denies or leaves the request to the next authorizer.
package authzwebhook
