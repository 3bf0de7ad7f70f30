// Package plan tells what a change of policy does: who gains, who loses, and whose conditions become others (TR-2). It
// decides every action for every subject that a binding names, before and after, with the index that decides requests,
// and compares the conditions that are left with package compare.
//
// A subject is judged as who-can judges it: a user as a member of system:authenticated and of nothing else, a group as
// an unnamed member of it.
package plan
