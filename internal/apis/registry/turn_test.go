package registry

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/turns"
)

// NI-6: conditions are compiled when it is their writer's turn. What has none to compile does not wait.
func TestConditionsAreCompiledInTurn(t *testing.T) {
	cfg := Config{Turns: &turns.Queue{}}
	edgar := &user.DefaultInfo{Name: "edgar"}
	done, err := cfg.Turns.Take(t.Context(), edgar)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(request.WithUser(t.Context(), edgar))
	cancel()
	plain := &authz.Role{Rules: []policy.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}}
	conditional := &authz.Role{Rules: []policy.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}, When: "true"}}}
	for _, c := range []struct {
		name     string
		new, old *authz.Role
		waits    bool
	}{
		{"a condition", conditional, nil, true},
		{"a new condition", conditional, plain, true},
		{"the condition that it has", conditional, conditional, false},
		{"no condition", plain, conditional, false},
	} {
		end, err := conditionsTurn(ctx, cfg, c.new, c.old)
		if apierrors.IsTooManyRequests(err) != c.waits || err != nil && !c.waits {
			t.Errorf("%s, while another write of the user is checked: %v", c.name, err)
		}
		if err == nil {
			end()
		}
	}
	done()
	end, err := conditionsTurn(request.WithUser(t.Context(), edgar), cfg, conditional, nil)
	if err != nil {
		t.Fatalf("when it is the user's turn: %v", err)
	}
	end()
}
