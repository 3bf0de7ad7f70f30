// Package hiddenfields is fields that readers do not see (HF): field permissions with readExclusive. It needs field
// permissions, and costs nothing until one of them hides a field.
package hiddenfields
