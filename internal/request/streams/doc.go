// Package streams ends long-running requests when the caller loses the right to them: connections to pods and nodes,
// followed logs, and requests proxied to other servers, where nothing is admitted.
//
// The start or end of a rule's validity always counts. Whether a change of policy counts is a setting; see Recheck.
// Watches of objects stored here are ended by readfilter, which can tell their clients to list again; where it is
// disabled, they are ended here.
package streams
