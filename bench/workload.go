package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/bench/live"
)

const (
	// workspace is where edgar writes, library where they read lists of a hundred objects, and store has what nobody
	// touches.
	workspace, library, store = "workspace", "library", "store"
	librarySize               = 100
)

// workload is edgar, who works with config maps of about a kilobyte on one server. So does dora, to whom a rule denies
// some deletes if the systems are in use, so that each of hers is checked for what would go with it.
type workload struct {
	server  *live.Server
	edgar   *live.Client
	dora    *live.Client
	clients int
	round   int
	// created are the names of what each worker has made with create: edgar deletes the first half, dora the rest.
	created [][]string
}

// newWorkload prepares a server for edgar. Their rights come from RBAC, or if the systems are in use from policies,
// with a condition on what they write.
func newWorkload(ctx context.Context, s *live.Server, inUse bool, sink string, clients, stored int) (*workload, error) {
	w := &workload{server: s, clients: clients, created: make([][]string, clients)}
	var err error
	if w.edgar, err = s.User("edgar", "team-a"); err != nil {
		return nil, err
	}
	if w.dora, err = s.User("dora", "team-a"); err != nil {
		return nil, err
	}
	for _, ns := range []string{workspace, library, store} {
		if err := s.Admin.Create(ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
			return nil, err
		}
	}
	if inUse {
		err = useSystems(ctx, s.Admin, sink)
	} else {
		err = bindWriters(ctx, s.Admin)
	}
	if err != nil {
		return nil, err
	}
	if err := live.Times(ctx, clients, librarySize, func(ctx context.Context, i int) error {
		return s.Admin.Create(ctx, maps(library), configMap(fmt.Sprint("c", i), 0))
	}); err != nil {
		return nil, err
	}
	if err := live.Times(ctx, clients, stored, func(ctx context.Context, i int) error {
		return s.Admin.Create(ctx, maps(store), configMap(fmt.Sprint("s", i), 0))
	}); err != nil {
		return nil, err
	}
	if err := live.Times(ctx, clients, clients, func(ctx context.Context, i int) error {
		return s.Admin.Create(ctx, maps(workspace), configMap(fmt.Sprint("own-", i), 0))
	}); err != nil {
		return nil, err
	}
	return w, eventually(ctx, func() error { return w.request("update")(ctx, 0) })
}

// run is one operation for a while. Deletes take as long as what was created lasts.
func (w *workload) run(ctx context.Context, op string, long time.Duration) (live.Load, error) {
	w.round++
	names := slices.Concat(w.created...)
	switch op {
	case "delete":
		return w.delete(ctx, w.edgar, names[:len(names)/2])
	case "delete-checked":
		clear(w.created)
		return w.delete(ctx, w.dora, names[len(names)/2:])
	}
	return live.During(ctx, w.clients, long, w.request(op))
}

func (w *workload) delete(ctx context.Context, who *live.Client, names []string) (live.Load, error) {
	return live.Shared(ctx, w.clients, len(names), func(ctx context.Context, i int) error {
		return who.Must(ctx, http.MethodDelete, maps(workspace)+"/"+names[i], nil)
	})
}

func (w *workload) request(op string) func(context.Context, int) error {
	made := make([]int, w.clients)
	switch round := w.round; op {
	case "create":
		return func(ctx context.Context, worker int) error {
			made[worker]++
			name := fmt.Sprintf("r%d-%d-%d", round, worker, made[worker])
			w.created[worker] = append(w.created[worker], name)
			return w.edgar.Create(ctx, maps(workspace), configMap(name, 0))
		}
	case "update":
		return func(ctx context.Context, worker int) error {
			made[worker]++
			name := fmt.Sprint("own-", worker)
			body, err := json.Marshal(configMap(name, round*1_000_000+made[worker]))
			if err != nil {
				return err
			}
			return w.edgar.Must(ctx, http.MethodPut, maps(workspace)+"/"+name, body)
		}
	case "get":
		return func(ctx context.Context, worker int) error {
			return w.edgar.Must(ctx, http.MethodGet, maps(workspace)+"/own-"+fmt.Sprint(worker), nil)
		}
	default:
		return func(ctx context.Context, _ int) error { return w.edgar.Must(ctx, http.MethodGet, maps(library), nil) }
	}
}

func maps(namespace string) string { return "/api/v1/namespaces/" + namespace + "/configmaps" }

func configMap(name string, version int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "a", "env": "dev"}},
		Data:       map[string]string{"version": fmt.Sprint(version), "text": strings.Repeat("0123456789abcdef", 64)},
	}
}

const (
	rbacPath  = "/apis/rbac.authorization.k8s.io/v1/"
	ourPath   = "/apis/policy.proviso.dev/v1alpha1/"
	viewsPath = "/apis/authorization.proviso.dev/v1alpha1/"
)

func bindWriters(ctx context.Context, admin *live.Client) error {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bench-writer"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "create", "update", "delete"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
	if err := admin.Create(ctx, rbacPath+"clusterroles", role); err != nil {
		return err
	}
	for _, name := range []string{"edgar", "dora"} {
		binding := clusterBinding(0, role.Name)
		binding.Name, binding.Subjects[0].Name = "bench-"+name, name
		if err := admin.Create(ctx, rbacPath+"clusterrolebindings", binding); err != nil {
			return err
		}
	}
	return nil
}

// newSink takes audit events and forgets them.
func newSink() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // what a sink does with events is not measured
	}))
}
