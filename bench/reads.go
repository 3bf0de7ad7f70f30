package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/bench/live"
)

// narrowedSize is how many objects there are; half of them may be seen.
const narrowedSize = 300

// reads is a list that the server narrows to what its caller may see, whole and in pages. The peer is the same list
// with the selector typed by a user who needs no condition. RD-9 allows 1.2 times as much, a ratio of 0.83.
func reads(b *bench) error {
	type kind struct {
		name, query string
		// reader is which of the sides reads, beside the one who has typed the selector.
		reader int
	}
	kinds := []kind{{"e2e-list-narrowed", "", 0}, {"e2e-page-narrowed", "&limit=50", 0}, {"e2e-list-narrowed-asked", "", 2}}
	if !slices.ContainsFunc(kinds, func(k kind) bool { return b.wantsRead(k.name) }) {
		return nil
	}
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	s, err := live.StartProviso(b.ctx, bins, "proviso")
	if err != nil {
		return err
	}
	defer s.Stop()
	if err := teamReaders(b.ctx, s.Admin, b.clients); err != nil {
		return err
	}
	sides := make([]struct {
		client *live.Client
		query  string
	}, 3)
	for i, who := range []struct{ user, query string }{{"nora", "?x=y"}, {"tom", "?labelSelector=team%3Da"}, {"anna", "?x=y"}} {
		if sides[i].client, err = s.User(who.user); err != nil {
			return err
		}
		sides[i].query = who.query
		if err := eventually(b.ctx, func() error { return sides[i].client.Must(b.ctx, http.MethodGet, maps(library), nil) }); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		read := func(i int) readBy { return readBy{sides[i].client, maps(library) + sides[i].query + k.query} }
		if err := b.compareReads(s, k.name, narrowedSize, read(k.reader), "typed", read(1)); err != nil {
			return err
		}
	}
	return nil
}

// readBy is a get of a path by a client.
type readBy struct {
	client *live.Client
	path   string
}

// The figures of a read.
var readFigures = []string{"-p50", "-cpu"}

// wantsRead reports whether a figure of a read is asked for.
func (b *bench) wantsRead(name string) bool {
	return slices.ContainsFunc(readFigures, func(figure string) bool { return b.wanted(name + figure) })
}

// compareReads measures two reads of one server in turn.
func (b *bench) compareReads(s *live.Server, name string, size int, ours readBy, peerName string, peer readBy) error {
	var measured [2][2][]float64
	for round := range b.turns {
		for n := range 2 {
			i := (round + n) % 2
			r, before := [2]readBy{ours, peer}[i], s.Worked()
			load, err := live.During(b.ctx, b.clients, b.stretch, func(ctx context.Context, _ int) error { return r.client.Must(ctx, http.MethodGet, r.path, nil) })
			if err != nil {
				return err
			}
			measured[i][0] = append(measured[i][0], float64(load.Quantile(0.5)))
			measured[i][1] = append(measured[i][1], float64(s.Worked()-before)/float64(len(load.Each)))
		}
	}
	for f, figure := range readFigures {
		if err := b.pair(name+figure, size, "ns", measured[0][f], peerName, measured[1][f]); err != nil {
			return err
		}
	}
	return nil
}

// teamReaders lets nora and anna read what is labelled team=a, anna by a condition that no selector can say, and tom
// read everything.
func teamReaders(ctx context.Context, admin *live.Client, clients int) error {
	in := "namespaces/" + library + "/"
	const where, asked = `"where": "resource.metadata.labels.team == 'a'", `, `"where": "resource.metadata.labels.team.startsWith('a')", `
	for _, o := range []struct {
		path   string
		object any
	}{
		{"/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: library}}},
		{ourPath + in + "policies", json.RawMessage(`{"metadata": {"name": "default"}}`)},
		{ourPath + in + "policybindings", json.RawMessage(fmt.Sprintf(`{"metadata": {"name": %q}}`, library))},
		{viewsPath + in + "roles", readersRole("team", where)}, {viewsPath + in + "rolebindings", readersBinding("team", "nora")},
		{viewsPath + in + "roles", readersRole("asked", asked)}, {viewsPath + in + "rolebindings", readersBinding("asked", "anna")},
		{viewsPath + in + "roles", readersRole("all", "")}, {viewsPath + in + "rolebindings", readersBinding("all", "tom")},
	} {
		if err := admin.Create(ctx, o.path, o.object); err != nil {
			return err
		}
	}
	return live.Times(ctx, clients, narrowedSize, func(ctx context.Context, i int) error {
		o := configMap(fmt.Sprint("c", i), 0)
		o.Labels["team"] = []string{"a", "b"}[i%2]
		return admin.Create(ctx, maps(library), o)
	})
}

func readersRole(name, where string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"metadata": {"name": %q}, "rules": [{%s"verbs": ["list"], "resourceKinds": ["configmaps"]}]}`, name, where))
}

func readersBinding(name, user string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"metadata": {"name": %q}, "roleRef": {"namespace": %q, "name": %q}, "userNames": [%q]}`, name, library, name, user))
}
