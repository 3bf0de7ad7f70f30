package apiserver

import (
	"os"
	"path/filepath"
	"testing"
)

// SV-1: a log that cannot be written never fails the server; klog ends the process on an error.
func TestLogFileOnFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	full := &logFile{Path: func() string { return "/dev/full" }}
	path := filepath.Join(t.TempDir(), "log", "proviso.log")
	good := &logFile{Path: func() string { return path }}
	for _, l := range []*logFile{full, good} {
		if n, err := l.Write([]byte("line\n")); n != 5 || err != nil {
			t.Errorf("%s: %d %v", l.Path(), n, err)
		}
	}
	if text, err := os.ReadFile(path); string(text) != "line\n" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}
