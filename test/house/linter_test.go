package internal_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is generated from the rings")

const (
	config     = "../.golangci.yml"
	beginRings = "        # begin rings: written by go test ./internal -run Linter -update\n"
	endRings   = "        # end rings\n"
)

// TestLinterKnowsEveryPackage: depguard, which editors run, has every package in the list of its ring, and lets a ring
// import what it may, and nothing else.
func TestLinterKnowsEveryPackage(t *testing.T) {
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(data), beginRings)
	got, after, ends := strings.Cut(rest, endRings)
	if !begins || !ends {
		t.Fatalf("%s does not say where the rings begin and end", config)
	}
	want := depguard()
	switch {
	case got == want:
	case *update:
		if err := os.WriteFile(config, []byte(before+beginRings+want+endRings+after), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("depguard does not know the rings as they are: run go test ./internal -run Linter -update")
	}
	for _, dir := range linksKubernetes {
		if !strings.Contains(before, `"!**/`+dir+`/**"`) && !under(dir, "test") {
			t.Errorf("%s: depguard's rule kubernetes lacks %s", config, dir)
		}
	}
}

// depguard writes the rings as its rules. What a rule allows is longer than what it denies, and so wins. Hosts see
// everything but one another, which the rule outward says.
func depguard() string {
	var b strings.Builder
	for _, r := range []ring{engine, stage, systems, foundation} {
		fmt.Fprintf(&b, "        %s:\n          list-mode: lax\n          files:\n", r)
		for _, dir := range slices.Sorted(maps.Keys(rings)) {
			if rings[dir] == r {
				fmt.Fprintf(&b, "            - \"**/internal/%s/**\"\n", dir)
			}
		}
		b.WriteString("            - \"!$test\"\n          allow:\n")
		for _, dir := range slices.Sorted(maps.Keys(rings)) {
			if slices.Contains(mayImport[r], rings[dir]) || slices.Contains(open, dir) && r != engine {
				fmt.Fprintf(&b, "            - %s%s\n", internal, dir)
			}
		}
		fmt.Fprintf(&b, "          deny:\n            - {pkg: %s, desc: \"imports never point outward: ring %s may import %v\"}\n", strings.TrimSuffix(internal, "/"), r, mayImport[r])
		if r == engine {
			b.WriteString(`            - {pkg: k8s.io/client-go, desc: "the engine is pure: hand values in"}
            - {pkg: k8s.io/klog, desc: "the engine is pure: return what happened"}
            - {pkg: net/http, desc: "the engine is pure"}
            - {pkg: os$, desc: "the engine is pure"}
`)
		}
	}
	return b.String()
}
