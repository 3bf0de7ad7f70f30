//go:build !unix

package pki

import "io/fs"

// noFollow has no meaning here: no server runs on this system, and data directories cannot be locked.
const noFollow = 0

func ownerOf(fs.FileInfo) (uid int, known bool) { return 0, false }
