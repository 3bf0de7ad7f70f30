//go:build !unix

package main

import "time"

var started = time.Now()

// processorTime is the wall clock where the processor's is not to be had.
func processorTime() time.Duration { return time.Since(started) }
