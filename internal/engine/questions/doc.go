// Package questions knows which requests and checks a server can be asked about, and their shape: the namespace of a
// request, and the resources that only authorization knows. Tools that answer questions about requests use it, so each
// of them asks what the server asks.
package questions
