// Package bearer recognises narrowed tokens. Its authenticator runs ahead of all others, and it alone decides about
// every credential with their prefix. Its filter runs behind authorization and attaches the token to the user. For each
// request, a tier of the chain decides what the token allows and whether it is still valid.
package bearer
