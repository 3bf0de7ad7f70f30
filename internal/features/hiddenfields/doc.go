// Package hiddenfields is the system that hides fields from readers (HF): field permissions with readExclusive. It
// needs the system for field permissions, and costs nothing until one of them hides a field.
package hiddenfields
