package auditsink

import "os"

// child runs the part of a test that has to die, in a process of its own.
func child() bool {
	run, ok := map[string]func(){}[os.Getenv("AUDITSINK_CHILD")]
	if ok {
		run()
	}
	return ok
}
