package main

import "testing"

// SV-11: all engines give the same answers to the questions that are measured; a peer that answers something else is no
// peer.
func TestEnginesAgree(t *testing.T) {
	all := append([]engine{{"proviso", provisoEngine}}, others...)
	for _, condition := range []bool{false, true} {
		for _, e := range all {
			if condition && e.name == "upstream" {
				continue // RBAC has no conditions
			}
			ask, err := e.build(holds{n: 50, condition: condition})
			if err != nil {
				t.Fatalf("%s: %v", e.name, err)
			}
			for user, want := range map[string]bool{userName(0): true, userName(49): true, userName(50): false, "nobody@example.com": false} {
				if got, err := ask(user)(); err != nil || got != want {
					t.Errorf("%s, condition %v: %s is allowed %v, want %v: %v", e.name, condition, user, got, want, err)
				}
			}
		}
	}
}
