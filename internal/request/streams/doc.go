// Package streams ends requests that last when the right to them ends: connections to pods and nodes, logs that are
// followed, and what is passed on to other servers, where nothing is admitted.
//
// An edge in time always counts. Whether a change of policy counts is a setting; see Recheck. Watches of what is stored
// here are ended by readfilter, which can tell their clients to list again; where it is off, they are ended here.
package streams
