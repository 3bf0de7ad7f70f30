// Package atomicfile writes files that are whole after a crash at any moment, and takes locks that the kernel drops
// with the process. It decides nothing, and is the only package of the platform that stages and systems use, too.
package atomicfile
