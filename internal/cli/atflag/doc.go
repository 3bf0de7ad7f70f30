// Package atflag is the flag --at: the instant that a question is about.
package atflag
