package main

import (
	"context"
	"fmt"
	"runtime"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// pinned is the context of a request that is decided by this index.
func pinned(ix *ruleset.Index) context.Context {
	return requestctx.With(context.Background(), &snapshot.Snapshot{Synced: true, Rules: ix})
}

// inverse asks who can read one secret; a hundred users can.
func inverse(b *bench) error {
	const name, answer = "who-can", 100
	if !b.wanted(name) {
		return nil
	}
	for _, n := range b.sizes {
		in := secretBindings(n)
		ix := ruleset.Build(in)
		s, err := storesOf(in)
		if err != nil {
			return err
		}
		upstream := rbac.NewSubjectAccessEvaluator(s.roles, s.roleBindings, s.clusterRoles, s.clusterRoleBindings, "")
		question := authorizer.AttributesRecord{Verb: "get", Namespace: "hammer", Resource: "secrets", Name: fmt.Sprintf("secret-%06d", n/200), ResourceRequest: true}
		err = b.compare(name, n, side{"proviso", func() error {
			if got := len(whocan.Ask(ix, whocan.Question{Request: question}).Users); got != answer {
				return fmt.Errorf("%d users, want %d", got, answer)
			}
			return nil
		}}, side{"upstream", func() error {
			// Upstream also lists the group system:masters.
			got, err := upstream.AllowedSubjects(context.Background(), question)
			if err != nil || len(got) != answer+1 {
				return fmt.Errorf("%d subjects, want %d: %v", len(got), answer+1, err)
			}
			return nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// changes is a change of the role that all bindings refer to, and of one binding, until the next index can be
// published. The peer builds that index again.
func changes(b *bench) error {
	const role, binding = "role-change", "binding-change"
	if !b.wanted(role) && !b.wanted(binding) {
		return nil
	}
	for _, n := range b.sizes {
		in := userBindings(n)
		ix := ruleset.Build(in)
		rebuild := side{"rebuild", func() error {
			if got := ruleset.Build(in).Bindings(); got != n {
				return fmt.Errorf("%d bindings, want %d", got, n)
			}
			return nil
		}}
		i := 0
		applied := func(c ruleset.Change) error {
			i++
			if ix = ix.Apply(c); ix.Bindings() != n {
				return fmt.Errorf("%d bindings, want %d", ix.Bindings(), n)
			}
			return nil
		}
		if err := b.compare(role, n, side{"proviso", func() error {
			r := viewRole()
			r.Rules[0].Verbs = []string{"get", fmt.Sprint("verb-", i)}
			return applied(ruleset.Put(r))
		}}, rebuild); err != nil {
			return err
		}
		if err := b.compare(binding, n, side{"proviso", func() error {
			next := in.ClusterRoleBindings[i%n].DeepCopy()
			next.Subjects[0].Name += fmt.Sprint(i)
			return applied(ruleset.Put(next))
		}}, rebuild); err != nil {
			return err
		}
	}
	return nil
}

// memory is what each engine takes for each binding. Ours comes beside what the binding itself takes in the informer's
// store, which is all that upstream has and is shown as its peer.
func memory(b *bench) error {
	const name = "memory-per-binding"
	if !b.wanted(name) {
		return nil
	}
	for _, n := range b.sizes {
		per := func(before, after uint64) float64 { return max(0, float64(after)-float64(before)) / float64(n) }
		empty := heap()
		in := userBindings(n)
		objects := heap()
		ix := ruleset.Build(in)
		index := heap()
		runtime.KeepAlive(in)
		runtime.KeepAlive(ix)
		ours := per(objects, index)
		if err := b.report(result{Name: name, N: n, Unit: "B", Proviso: ours, Peer: "upstream", PeerIs: per(empty, objects)}); err != nil {
			return err
		}
		for _, e := range others {
			if e.name == "upstream" {
				continue
			}
			before := heap()
			q, err := e.build(holds{n: n})
			if err != nil {
				return err
			}
			after := heap()
			runtime.KeepAlive(q)
			if err := b.report(result{Name: name, N: n, Unit: "B", Proviso: ours, Peer: e.name, PeerIs: per(before, after)}); err != nil {
				return err
			}
		}
	}
	return nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	return heapInUse()
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
