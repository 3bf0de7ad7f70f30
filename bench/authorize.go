package main

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// holds are the bindings that every engine is given: users 0 to n-1 have one binding each to the same role. It is
// viewRole, or with a condition one that lets them update deployments of fewer than ten replicas.
type holds struct {
	n         int
	condition bool
}

// question asks for a user; the rest is the same for all: get the deployment web, or update it to three replicas.
type question func(user string) func() (bool, error)

// engine makes an authorizer of the bindings and returns how to ask it.
type engine struct {
	name  string
	build func(holds) (question, error)
}

// others are the engines beside ours. Each has the bindings in the form that its documentation recommends. cedar-go has
// two: with one policy for each binding, and with the bindings as groups of the user beside one policy, which works as
// long as nothing but the role and the user matters.
var others = []engine{
	{"upstream", upstreamRBAC},
	{"cedar-go", func(h holds) (question, error) { return cedarEngine(h, false) }},
	{"cedar-go-groups", func(h holds) (question, error) { return cedarEngine(h, true) }},
	{"opa", opaEngine},
	{"casbin", casbinEngine},
}

// authorizing is one user among n bindings: who may, who may not, and who may under a condition that holds, which is
// decided and then evaluated on the object.
func authorizing(b *bench) error {
	for _, condition := range []bool{false, true} {
		if err := b.authorizing(condition); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) authorizing(condition bool) error {
	const allow, none, cold, conditional = "authorize-allow", "authorize-none", "authorize-cold", "authorize-conditional"
	if condition && !b.wanted(conditional) || !condition && !b.wanted(allow) && !b.wanted(none) && !b.wanted(cold) {
		return nil
	}
	building, last := map[string]time.Duration{}, 0
	for _, n := range b.all {
		h := holds{n: n, condition: condition}
		names, questions := []string{"proviso"}, []question{nil}
		var err error
		if questions[0], err = provisoEngine(h); err != nil {
			return err
		}
		for _, e := range others {
			if condition && e.name == "upstream" {
				continue // RBAC has no conditions
			}
			names = append(names, e.name)
			if last > 0 && building[e.name]*time.Duration(n/last) > b.patience {
				questions = append(questions, nil)
				building[e.name] *= time.Duration(n / last)
				continue
			}
			began := processorTime()
			q, err := e.build(h)
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			building[e.name] = processorTime() - began
			questions = append(questions, q)
		}
		last = n
		ask := func(name, user string, want bool, before func()) error {
			var sides []side
			for i, q := range questions {
				if q == nil {
					sides = append(sides, absent(names[i], fmt.Sprintf("loading takes over %s", b.patience)))
					continue
				}
				asked := deciding(names[i], q(user), want)
				if before != nil {
					once := asked.once
					asked.once = func() error { before(); return once() }
				}
				sides = append(sides, asked)
			}
			return b.compare(name, n, sides[0], sides[1:]...)
		}
		if condition {
			err = ask(conditional, userName(n/2), true, nil)
		} else if err = ask(allow, userName(n/2), true, nil); err == nil {
			if err = ask(none, "nobody@example.com", false, nil); err == nil {
				user, another := everyUser(n)
				err = ask(cold, user, true, another)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// everyUser is a name that is of another user after each call, all n of them in turn. What an engine knows of the user
// is then in no cache of the processor, while the name itself is, as it is when a request has just been read.
func everyUser(n int) (name string, another func()) {
	text, i := []byte(userName(0)), 0
	digits := text[len("user-") : len("user-")+6]
	return unsafe.String(&text[0], len(text)), func() {
		i = (i + 7919) % n
		for at, rest := len(digits)-1, i; at >= 0; at, rest = at-1, rest/10 {
			digits[at] = byte('0' + rest%10)
		}
	}
}

// deciding asks an engine and checks the answer.
func deciding(name string, ask func() (bool, error), want bool) side {
	return side{name, func() error {
		if got, err := ask(); err != nil || got != want {
			return fmt.Errorf("decided %v, want %v: %v", got, want, err)
		}
		return nil
	}}
}

func provisoEngine(h holds) (question, error) {
	if h.condition {
		return provisoConditions(h)
	}
	ctx, ours := pinned(ruleset.Build(userBindings(h.n))), authorize.NewRBAC(snapshot.NewStore())
	return unconditional(ctx, ours), nil
}

func upstreamRBAC(h holds) (question, error) {
	s, err := storesOf(userBindings(h.n))
	if err != nil {
		return nil, err
	}
	return unconditional(context.Background(), rbac.New(s.roles, s.roleBindings, s.clusterRoles, s.clusterRoleBindings)), nil
}

func unconditional(ctx context.Context, a authorizer.UnconditionalAuthorizer) question {
	return func(user string) func() (bool, error) {
		attrs := reader(user)
		return func() (bool, error) {
			d, _, err := a.Authorize(ctx, attrs)
			return d == authorizer.DecisionAllow, err
		}
	}
}
