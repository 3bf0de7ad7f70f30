// Package logfile is the log of a server that has a directory of its own.
package logfile
