// Package links names the links of the authorization chain that the server creates itself. The names appear in traces,
// audit annotations and metrics. Webhooks have the names from their configuration.
package links
