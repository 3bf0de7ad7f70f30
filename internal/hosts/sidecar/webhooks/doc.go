// Package webhooks decides for a stock kube-apiserver, in the two calls that it makes: the authorization webhook,
// before the object is known, and the admission webhook, with the object. No state travels from one to the other. Both
// make the same decision from the same policy, and the second enforces it for every request that the first could have
// let pass.
//
// Place in the request path: beside it. The same chain, gate and enforcer decide as in a server of ours.
package webhooks
