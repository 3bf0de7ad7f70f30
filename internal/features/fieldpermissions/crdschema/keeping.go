package crdschema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/kept"
)

// Keeper keeps what definitions declare.
type Keeper interface {
	// Known is what this server knows, and Read what is kept now.
	Known(types.UID) (kept.Record, bool)
	Read(context.Context, types.UID) (kept.Record, error)
	Change(context.Context, types.UID, func(context.Context, *kept.Record) error) error
	// Create is Change for a definition that the caller is about to make. It is an error if they make too many.
	Create(ctx context.Context, uid types.UID, caller string, change func(context.Context, *kept.Record) error) error
}

// Stateless is for a host that does not store definitions, and so keeps nothing about them.
type Stateless struct{}

// Known implements Keeper.
func (Stateless) Known(types.UID) (kept.Record, bool) { return kept.Record{}, false }

// Read implements Keeper.
func (Stateless) Read(context.Context, types.UID) (kept.Record, error) { return kept.Record{}, nil }

// Change implements Keeper.
func (Stateless) Change(context.Context, types.UID, func(context.Context, *kept.Record) error) error {
	return nil
}

// Create implements Keeper.
func (Stateless) Create(context.Context, types.UID, string, func(context.Context, *kept.Record) error) error {
	return nil
}

// Escalation refuses a caller who may not change what holds everywhere.
type Escalation interface {
	MayDeclare(ctx context.Context) error
}

// revives reports whether a write repeats or takes back something that is missing. Then its text must be another one
// than what is stored: by that it is known whether the write was stored.
func (p *Plugin) revives(w *write, written record) bool {
	if w.old == nil || len(written) == 0 {
		return false
	}
	rec, known := p.Keeper.Known(w.old.UID)
	if !known {
		return false
	}
	_, resolved := left(missingFrom(w.stored, w.storedRecord(), servedNames(w.old), rec), written, w.new)
	return resolved
}

// different is a text of the same meaning.
func different(text, from string) string {
	if text == "" {
		text = "{}"
	}
	if text == from {
		text += "\n"
	}
	return text
}

func servedNames(crd *apiextensions.CustomResourceDefinition) (names []string) {
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Served || v.Storage {
			names = append(names, v.Name)
		}
	}
	return names
}

// enter keeps what the write is about to store. What it repeats or takes back takes a right.
func (p *Plugin) enter(ctx context.Context, w *write, dryRun bool) error {
	written := record{}
	if c := requestctx.DefinitionOf(ctx); c != nil && c.Annotation != "" {
		written, _ = decode(c.Annotation) // it was read before
	}
	now := time.Now()
	change := func(ctx context.Context, rec *kept.Record) error {
		next := kept.Next{Declared: kept.Declared{Text: w.sent}}
		if w.old != nil {
			next.Base = w.old.ResourceVersion
			if rec.IsEmpty() {
				rec.Last.Text = w.stored
			}
			after, resolved := left(missingFrom(w.stored, w.storedRecord(), servedNames(w.old), *rec), written, w.new)
			if resolved {
				if err := p.Escalation.MayDeclare(ctx); err != nil {
					return apierrors.NewForbidden(definitions, w.new.Name, err)
				}
			}
			for _, r := range after {
				text, err := json.Marshal(r)
				if err != nil {
					return err
				}
				next.Missing = append(next.Missing, string(text))
			}
		}
		rec.Name = w.new.Name
		rec.Enter(next, now)
		return nil
	}
	var err error
	switch {
	case dryRun && w.old != nil:
		var rec kept.Record
		if rec, err = p.Keeper.Read(ctx, w.old.UID); err == nil {
			err = change(ctx, &rec)
		}
	case dryRun:
	case w.old == nil:
		caller, ok := request.UserFrom(ctx)
		if !ok {
			return apierrors.NewInternalError(errors.New("no user in the request"))
		}
		err = p.Keeper.Create(ctx, w.new.UID, caller.GetName(), change)
	default:
		err = p.Keeper.Change(ctx, w.old.UID, change)
	}
	var refused *apierrors.StatusError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	if errors.Is(err, kept.ErrTooMany) {
		return apierrors.NewTooManyRequests(err.Error(), 120)
	}
	klog.ErrorS(err, "Keeping what a definition declares failed", "definition", w.new.Name)
	return apierrors.NewServiceUnavailable(fmt.Sprintf("what definition %s declares cannot be kept: try again", w.new.Name))
}

// Settle brings what is kept up to date with a definition, which must have been read after the record.
func Settle(rec *kept.Record, crd *apiextensionsv1.CustomResourceDefinition, now time.Time) error {
	text := crd.Annotations[Annotation]
	if rec.Name = crd.Name; rec.IsEmpty() {
		rec.Last = kept.Declared{Text: text}
		return nil
	}
	current, _ := decode(text)
	state := kept.Declared{Text: text}
	for _, r := range missingFrom(text, current, versionNames(crd), *rec) {
		missing, err := json.Marshal(r)
		if err != nil {
			return err
		}
		state.Missing = append(state.Missing, string(missing))
	}
	rec.Settle(state, crd.ResourceVersion, now)
	return nil
}
