// Package questions knows which requests and checks a server can be asked about, and what they look like: the namespace
// that a request has, and the resources that only authorization knows. Tools that answer questions about requests use
// it, so that each of them asks what the server asks.
package questions
