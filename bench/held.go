package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/errorfilter"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

const heldShare = "share-of-held-response"

// held is how long it takes to hold a response back until its request is admitted (NI-3): the same response with a
// condition and without one, through the same filter, into a writer that keeps nothing. The rest of the create is the
// handler's time, which the server measured.
func (b *bench) held(handler []float64) error {
	if !b.wanted(heldShare) {
		return nil
	}
	body := []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"share-1"},"data":{"text":"` + strings.Repeat("x", 700) + `"}}`)
	serve := errorfilter.New(errorfilter.Config{}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l := requestctx.NotesOf(r.Context()).Ledger(); l != nil {
			l.AdmitWhole(false)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}))
	attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "create", APIVersion: "v1", Resource: "configmaps", Namespace: workspace, ResourceRequest: true}
	one := func(p requestctx.Pass) func() error {
		return func() error {
			ctx := requestctx.WithNotes(requestctx.With(b.ctx, &snapshot.Snapshot{}))
			requestctx.From(ctx).Put(requestctx.Request, attrs, p)
			w := &discard{header: http.Header{}}
			serve.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, maps(workspace), http.NoBody))
			if w.wrote != len(body) {
				return errShort
			}
			return nil
		}
	}
	times, _, err := b.alternate([]side{{"held", one(requestctx.Conditional(met{}))}, {"passed", one(requestctx.Allowed())}})
	if err != nil {
		return err
	}
	return b.pair(heldShare, 1, "ns", []float64{max(0, median(times[0])-median(times[1]))}, "handler", handler)
}

const errShort = skipped("the response did not leave whole")

// met is a condition that holds.
type met struct{}

func (met) Resolve(context.Context, authorizer.ConditionsData) requestctx.Outcome {
	return requestctx.Outcome{Decision: authorizer.DecisionAllow}
}

// discard is a response that goes nowhere.
type discard struct {
	header http.Header
	wrote  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(p []byte) (int, error) {
	d.wrote += len(p)
	return len(p), nil
}
