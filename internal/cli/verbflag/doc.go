// Package verbflag looks at the verbs that users name in flags and arguments.
package verbflag
