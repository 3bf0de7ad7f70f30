package buildinfo

import (
	"runtime/debug"
	"strings"
	"testing"
)

// OP-1: a binary that the linker was told nothing says what the compiler knows.
func TestInfo(t *testing.T) {
	i := Info{Kubernetes: "v0.0.0-master+$Format:%H$"}
	i.complete(&debug.BuildInfo{
		Main:     debug.Module{Version: "(devel)"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}},
		Deps:     []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.0.0", Replace: &debug.Module{Version: "v0.37.1"}}},
	})
	want := Info{Version: "v0.0.0-dev", Commit: "0123456789abcdef", Date: "2026-01-02T03:04:05Z", Kubernetes: "v1.37.1"}
	if i != want {
		t.Errorf("%+v, want %+v", i, want)
	}
	told := Info{Version: "v1.2.3", Commit: "c", Date: "d", Kubernetes: "v1.37.1"}
	before := told
	told.complete(&debug.BuildInfo{Main: debug.Module{Version: "v9"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "x"}}, Deps: []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.99.0"}}})
	if told != before {
		t.Errorf("what the linker said was overridden: %+v", told)
	}
	if got := Get(); got.Version == "" || got.Commit == "" || got.Date == "" || got.Go == "" || !strings.Contains(got.Platform, "/") {
		t.Errorf("%+v", got)
	}
	if line := want.String(); !strings.Contains(line, "proviso v0.0.0-dev (commit 0123456789ab, 2026-01-02T03:04:05Z), Kubernetes v1.37.1") {
		t.Error(line)
	}
}
