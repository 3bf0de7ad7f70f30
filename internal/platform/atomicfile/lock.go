package atomicfile

import "errors"

// ErrLocked is what TryLock returns if another process, or another open file, has the lock.
var ErrLocked = errors.New("it is locked")
