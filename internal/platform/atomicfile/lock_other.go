//go:build !unix

package atomicfile

import (
	"fmt"
	"os"
	"runtime"
)

// TryLock fails: what locks files is the server, which does not run here. kubectl-proviso does, and locks none.
func TryLock(*os.File) error {
	return fmt.Errorf("files cannot be locked on %s", runtime.GOOS)
}
