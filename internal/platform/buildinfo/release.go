package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	kubeversion "k8s.io/component-base/version"
)

// Set by the linker (-X proviso.dev/proviso/internal/platform/buildinfo.version=…). A plain `go build` leaves them
// empty.
var version, commit, date string

// Info is what `proviso version` says (OP-1).
type Info struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	Date       string `json:"date"`
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
}

// Get returns what is known. What the linker was not told comes from what the compiler knows about the working tree.
func Get() Info {
	i := Info{
		Version: version, Commit: commit, Date: date,
		Kubernetes: kubeversion.Get().GitVersion, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if ok {
		i.complete(build)
	}
	for _, field := range []*string{&i.Version, &i.Commit, &i.Date} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return i
}

func (i *Info) complete(build *debug.BuildInfo) {
	fill := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	if build.Main.Version != "(devel)" {
		fill(&i.Version, build.Main.Version)
	}
	fill(&i.Version, "v0.0.0-dev")
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			fill(&i.Commit, s.Value)
		case "vcs.time":
			fill(&i.Date, s.Value)
		}
	}
	if !strings.HasPrefix(i.Kubernetes, "v0.") {
		return
	}
	// Without the linker's help Kubernetes does not know its own version. That of its client is the same, with 0 for 1.
	for _, m := range build.Deps {
		if m.Path != "k8s.io/client-go" {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if rest, ok := strings.CutPrefix(m.Version, "v0."); ok {
			i.Kubernetes = "v1." + rest
		}
	}
}

// String is one line for people.
func (i Info) String() string {
	return fmt.Sprintf("proviso %s (commit %.12s, %s), Kubernetes %s, %s %s", i.Version, i.Commit, i.Date, i.Kubernetes, i.Go, i.Platform)
}
