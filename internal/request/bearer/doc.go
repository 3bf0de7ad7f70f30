// Package bearer recognises narrowed tokens. Its authenticator stands ahead of all others and alone decides everything
// that begins like one; its filter stands behind authorization and lets the user carry the token. What the token
// allows, and whether it still holds, is decided for each request by the tier of the chain.
package bearer
