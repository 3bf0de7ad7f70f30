// Package links names the links of the authorization chain that the server makes itself. The names are in traces, audit
// annotations and metrics. Webhooks have the names that their configuration gives them.
package links
