// Package progress tells a person what a program is doing while it starts.
package progress
