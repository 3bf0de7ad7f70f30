package subject

import "testing"

// TR-22: tables fold the components of Kubernetes, and never the groups that everybody is in.
func TestFolds(t *testing.T) {
	for name, want := range map[string]struct{ system, folds bool }{
		"edgar": {}, "team-a": {}, "system": {}, "system:serviceaccount:hammer:builder": {},
		"system:serviceaccount:kube-system:namespace-controller": {true, true}, "system:kube-scheduler": {true, true}, "system:nodes": {true, true}, "system:masters": {true, true},
		"system:serviceaccount:broken": {true, true},
		"system:authenticated":         {true, false}, "system:unauthenticated": {true, false}, "system:anonymous": {true, false},
		"system:serviceaccounts": {true, false}, "system:serviceaccounts:kube-public": {true, false},
	} {
		if IsSystem(name) != want.system || Folds(name) != want.folds {
			t.Errorf("%s: system %v, folds %v", name, IsSystem(name), Folds(name))
		}
	}
}
