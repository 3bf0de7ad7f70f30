package house

import (
	"strings"
	"testing"
)

// TestRulesCanFail breaks each rule once and checks its positive twin, which differs in one thing.
func TestRulesCanFail(t *testing.T) {
	long := "package apiserver\n" + strings.Repeat("\n", maxLines)
	tests := []struct {
		name string
		rule func([]file) []string
		path string
		bad  string
		good string
		want string
	}{
		{"a context key beside the state", ownContextKeys, "internal/request/enforce/x.go",
			`package enforce; import "context"; func f(ctx context.Context) context.Context { return context.WithValue(ctx, 1, 2) }`,
			`package enforce; import "context"; func f(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }`,
			"make it a section of requestctx.State"},
		{"a collaborator that is a function", func(files []file) []string { return functionFields(files, 0) }, "internal/request/enforce/x.go",
			`package enforce; type T struct { Ask func() bool }`,
			`package enforce; type T struct { Ask interface{ Ask() bool }; ask func() bool }`,
			"make collaborators small interfaces"},
		{"engine imports request", upward, "internal/engine/ruleset/x.go",
			`package ruleset; import _ "proviso.dev/proviso/internal/request/authorize"`,
			`package ruleset; import _ "proviso.dev/proviso/internal/engine/expr"`,
			"internal/request is above internal/engine"},
		{"engine imports analysis", upward, "internal/engine/ruleset/x.go",
			`package ruleset; import _ "proviso.dev/proviso/internal/analysis/plan"`,
			`package ruleset; import _ "proviso.dev/proviso/internal/platform/editdistance"`,
			"internal/analysis is above internal/engine"},
		{"state imports request", upward, "internal/state/source/x.go",
			`package source; import _ "proviso.dev/proviso/internal/request/requestctx"`,
			`package source; import _ "proviso.dev/proviso/internal/engine/ruleset"`,
			"internal/request is above internal/state"},
		{"request imports apis", upward, "internal/request/enforce/x.go",
			`package enforce; import _ "proviso.dev/proviso/internal/apis/registry"`,
			`package enforce; import _ "proviso.dev/proviso/internal/state/snapshot"`,
			"internal/apis is above internal/request"},
		{"apis import features", upward, "internal/apis/registry/x.go",
			`package registry; import _ "proviso.dev/proviso/internal/features/feature"`,
			`package registry; import _ "proviso.dev/proviso/internal/request/freshness"`,
			"internal/features is above internal/apis"},
		{"feature imports host", upward, "internal/features/feature/x.go",
			`package feature; import _ "proviso.dev/proviso/internal/hosts/sidecar/webhooks"`,
			`package feature; import _ "proviso.dev/proviso/internal/apis/registry"`,
			"internal/hosts is above internal/features"},
		{"host imports command", upward, "internal/hosts/offline/x.go",
			`package offline; import _ "proviso.dev/proviso/internal/cli"`,
			`package offline; import _ "proviso.dev/proviso/internal/features"`,
			"internal/cli is above internal/hosts"},
		{"platform imports engine", upward, "internal/platform/pki/x.go",
			`package pki; import _ "proviso.dev/proviso/internal/engine/expr"`,
			`package pki; import _ "proviso.dev/proviso/internal/platform/atomicfile"`,
			"internal/engine is above internal/platform"},
		{"host imports host", upward, "internal/hosts/sidecar/x.go",
			`package sidecar; import _ "proviso.dev/proviso/internal/hosts/apiserver/replicas"`,
			`package sidecar; import _ "proviso.dev/proviso/internal/hosts/sidecar/webhooks"`,
			"a host does not see another host"},
		{"api imports internal", upward, "api/policy/v1alpha1/x.go",
			`package v1alpha1; import _ "proviso.dev/proviso/internal/engine/expr"`,
			`package v1alpha1; import _ "proviso.dev/proviso/api/meta/v1alpha1"`,
			"types only"},
		{"engine links Kubernetes in code", kubernetesLinks, "internal/engine/expr/x.go",
			`package expr; import _ "k8s.io/kubernetes/pkg/apis/core"`,
			`package expr; import _ "k8s.io/apiserver/pkg/cel"`,
			"only [internal/hosts/apiserver"},
		{"wide comment", wideComments, "internal/engine/expr/x.go",
			"package expr\n\n// " + strings.Repeat("word ", 24), "package expr\n\n// " + strings.Repeat("word ", 23), "columns wide"},
		{"engine does I/O", impurities, "internal/engine/expr/x.go",
			`package expr; import _ "net/http"`, `package expr; import _ "net/url"`, "the engine is pure"},
		{"engine imports platform", impurities, "internal/engine/expr/x.go",
			`package expr; import _ "proviso.dev/proviso/internal/platform/atomicfile"`, `package expr; import _ "proviso.dev/proviso/internal/platform/editdistance"`, "the engine is pure"},
		{"engine reads the clock", impurities, "internal/engine/expr/x.go",
			`package expr; import "time"; func f() { _ = time.Now() }`,
			`package expr; import "time"; func f(now time.Time) { _ = now.Add(time.Second) }`,
			"reads the clock with time.Now"},
		{"engine starts goroutines", impurities, "internal/engine/expr/x.go",
			`package expr; func f() { go f() }`, `package expr; func f() { f() }`, "starts a goroutine"},
		{"engine changes a global", impurities, "internal/engine/expr/x.go",
			`package expr; var seen = map[string]bool{}; func f() { seen["x"] = true }`,
			`package expr; var seen = map[string]bool{}; func f() { seen := seen; _ = seen }`,
			"package variable seen"},
		{"local of the same name", impurities, "internal/engine/expr/x.go",
			`package expr; var n int; func f() { n++ }`, `package expr; var n int; func f() { var n int; n++ }`,
			"package variable n"},
		{"package name", badNames, "internal/hosts/apiserver/x.go", `package util`, `package apiserver`, `"util" says nothing`},
		{"directory name", badNames, "internal/hosts/apiserver/policy/x.go", `package x`, "", "says nothing"},
		{"long file", tooLong, "internal/hosts/apiserver/x.go", long, long[:len(long)-1], "more than 500"},
		{"no doc.go", undocumented, "internal/hosts/apiserver/doc.go", `package apiserver`, "// Package server serves.\npackage apiserver",
			"has no doc.go"},
		{"unknown module", func(files []file) []string { return unreviewed(files, "| `github.com/spf13/cobra` |") }, "cmd/proviso/x.go",
			`package main; import _ "github.com/spf13/viper/remote"`, `package main; import _ "github.com/spf13/cobra/doc"`, "github.com/spf13/viper, which docs/dependencies.md does not name"},
		{"a word with two meanings", misusedWords, "internal/request/enforce/x.go", `package enforce; type verdict bool`, `package enforce; type sentence bool`,
			"lives in package authorize"},
		{"a function by a word", misusedWords, "internal/request/enforce/x.go", `package enforce; func (p Plugin) Outcome() string`,
			`package enforce; func (p Plugin) Outcome() requestctx.Outcome`, "lives in package requestctx"},
		{"init", inits, "internal/hosts/apiserver/x.go", `package apiserver; func init() {}`,
			`package apiserver; type T int; func (T) init() {}`, "declares init"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.rule(parsed(t, tt.path, tt.bad))
			if len(got) == 0 || !strings.Contains(got[0], tt.want) {
				t.Errorf("bad file: got %q, want a message with %q", got, tt.want)
			}
			if tt.good == "" {
				return
			}
			if got := tt.rule(parsed(t, tt.path, tt.good)); len(got) != 0 {
				t.Errorf("good file: got %q, want nothing", got)
			}
		})
	}
}

// TestUnknownFolderSaysWhatToDo: a package outside of the folders must not pass unnoticed.
func TestUnknownFolderSaysWhatToDo(t *testing.T) {
	for _, at := range []string{"internal/newthing/x.go", "internal/newthing/below/x_test.go"} {
		got := upward(parsed(t, at, `package newthing`))
		if len(got) != 1 || !strings.Contains(got[0], "is not one of the folders") {
			t.Errorf("%s: got %q, want a message that says what to do", at, got)
		}
	}
}

func parsed(t *testing.T, path, text string) []file {
	t.Helper()
	f, err := parse(path, text)
	if err != nil {
		t.Fatal(err)
	}
	return []file{f}
}
