// Package plan shows what a change of policy does: who gains, who loses, and whose conditions change (TR-2). For every
// subject that a binding names it decides every action before and after the change, with the index that decides
// requests. Package compare compares the conditions that remain.
//
// A subject is judged as who-can judges it: a user as a member of system:authenticated only, a group as an unnamed
// member of it.
package plan
