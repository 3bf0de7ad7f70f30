//go:build unix

package pki

import (
	"io/fs"
	"syscall"
)

// noFollow refuses to open a link.
const noFollow = syscall.O_NOFOLLOW

// ownerOf is the user id of whom a file belongs to.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(stat.Uid), true
}
