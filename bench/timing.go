package main

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// timing is what it costs that rights may begin and end, where none does (TM-17): a request gets its policy, instant
// and state, and is authorized; beside it the same without an instant, as before there was any.
func timing(b *bench) error {
	const name = "time-unused"
	if !b.wanted(name) {
		return nil
	}
	for _, n := range b.sizes {
		store := snapshot.NewStore()
		if err := store.Add(fixedRules{ruleset.Build(userBindings(n))}); err != nil {
			return err
		}
		store.Publish()
		rbac, attrs := authorize.NewRBAC(store), reader(userName(n/2))
		asked := func(ctx context.Context) error {
			d, _, err := rbac.Authorize(ctx, attrs)
			if err == nil && d != authorizer.DecisionAllow {
				err = errors.New("it is refused")
			}
			return err
		}
		with := side{"proviso", func() error {
			snap, instant := store.Now()
			return asked(requestctx.At(context.Background(), snap, instant))
		}}
		without := side{"without an instant", func() error { return asked(requestctx.With(context.Background(), store.Current())) }}
		if err := b.compare(name, n, with, without); err != nil {
			return err
		}
	}
	return nil
}

// fixedRules are a part that never changes.
type fixedRules struct{ index *ruleset.Index }

// Name implements snapshot.Part.
func (fixedRules) Name() string { return "rules" }

// HasSynced implements snapshot.Part.
func (fixedRules) HasSynced() bool { return true }

// Apply implements snapshot.Part.
func (f fixedRules) Apply(next *snapshot.Snapshot) { next.Rules = f.index }
