//go:build unix

package sidecar

import (
	"io/fs"
	"syscall"
)

// inodeOf tells files of one directory apart, whatever their names and contents are; 0 if that is not known.
func inodeOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
