package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli/policytools"
)

// policyTests measures `proviso test` from the files to the last decision: a thousand cases of a rule with a condition,
// and the same with coverage, which needs the trace of every case.
func policyTests(b *bench) error {
	const name, cases = "policy-tests", 1000
	if !b.wanted(name) {
		return nil
	}
	dir, err := os.MkdirTemp("", "policy-tests")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var rows strings.Builder
	for i := range cases {
		fmt.Fprintf(&rows, "  - {name: claim-%d, class: dev}\n", i)
	}
	for file, text := range map[string]string{"policy.yaml": testedPolicy, "claims.test.yaml": policyTest + rows.String()} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return err
		}
	}
	run := func(args ...string) func() error {
		return func() error {
			cmd := policytools.NewTestCommand(genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard})
			cmd.SilenceUsage, cmd.SilenceErrors = true, true
			cmd.SetArgs(append([]string{dir}, args...))
			return cmd.ExecuteContext(b.ctx)
		}
	}
	return b.compare(name, cases, side{"proviso", run()}, side{"coverage", run("--coverage")})
}

const testedPolicy = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: dev-volumes, namespace: hammer}
rules:
- verbs: [create]
  resourceKinds: [persistentvolumeclaims]
  where: resource.spec.storageClassName == "dev"
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: dev-volumes, namespace: hammer}
roleRef: {namespace: hammer, name: dev-volumes}
groupNames: [team-a]
`

const policyTest = `apiVersion: tools.proviso.dev/v1alpha1
kind: PolicyTest
metadata: {name: claims}
policies: [policy.yaml]
cases:
- name: $(name)
  user: edgar
  groups: [team-a]
  verb: create
  resource: persistentvolumeclaims
  namespace: hammer
  object: {metadata: {name: $(name)}, spec: {storageClassName: $(class)}}
  expect: {decision: Allow}
  each:
`
