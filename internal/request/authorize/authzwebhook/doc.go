// Package authzwebhook is an authorizer that asks a webhook and accepts conditions as an answer (CA-17).
//
// Place in the request path: a link of the authorizer chain. Where the answer may depend on the object, the webhook is
// told that conditions are understood, and its answer is resolved in admission: conditions of the built-in CEL type in
// process, all others by the webhook's conditions endpoint. A webhook without such an endpoint is asked what upstream
// asks; if it answers conditions all the same, they are never ignored.
//
// Nothing here can turn a failure into an Allow. The webhook's failure policy only chooses whether a failure denies or
// leaves the request to the next authorizer.
package authzwebhook
