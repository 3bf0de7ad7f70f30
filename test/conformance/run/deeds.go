package main

import (
	"os"
	"path/filepath"
)

// itselfPolicy records what the server writes under its own name.
const itselfPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, users: ["system:apiserver"], verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
`

// recordItself has the server record its own writes in a file, behind those that are there.
func recordItself(dir, log string) (flags []string, err error) {
	if log, err = filepath.Abs(log); err != nil {
		return nil, err
	}
	policy := filepath.Join(dir, "itself.yaml")
	return []string{"--audit-policy-file", policy, "--audit-log-path", log}, os.WriteFile(policy, []byte(itselfPolicy), 0o600)
}
