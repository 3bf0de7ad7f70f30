package page

import (
	"embed"
	"io/fs"
)

//go:embed all:assets
var embedded embed.FS

// Files are the assets.
var Files = sub()

func sub() fs.FS {
	files, err := fs.Sub(embedded, "assets")
	if err != nil {
		return embedded // it is there, or this does not compile
	}
	return files
}
