package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/bench/live"
)

// goal is what a role change may take until it is effective.
const goal = 100 * time.Millisecond

// effective is the time from sending a changed role to a server until the decision has changed for a user that is bound
// to it, the write itself included: of the cluster role that all n cluster role bindings of the server refer to, and of
// a role of a policy beside them. Of it, -after is what comes after the answer to the write. The peer is the goal.
func effective(b *bench) error {
	const rbac, policy = "e2e-role-write-effective", "e2e-policy-write-effective"
	quantiles := []struct {
		name string
		q    float64
	}{{"-p50", 0.5}, {"-p99", 0.99}}
	var names []string
	for _, q := range quantiles {
		names = append(names, rbac+q.name, rbac+"-after"+q.name, policy+q.name, policy+"-after"+q.name)
	}
	if !slices.ContainsFunc(names, b.wanted) {
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
	n := b.largest()
	if err := bindCrowd(b.ctx, s, n); err != nil {
		return err
	}
	if err := policyReader(b.ctx, s.Admin); err != nil {
		return err
	}
	for _, f := range []struct {
		name, user string
		flip       flip
	}{
		{rbac, userName(n / 2), flip{rbacPath + "clusterroles/bench-view", maps("default") + "/c", clusterRoleWith}},
		{policy, "rita", flip{viewsPath + "namespaces/" + workspace + "/roles/readers", maps(workspace) + "/c", policyRoleWith}},
	} {
		user, err := s.User(f.user)
		if err != nil {
			return err
		}
		if err := eventually(b.ctx, func() error { return user.Must(b.ctx, http.MethodGet, f.flip.object, nil) }); err != nil {
			return err
		}
		var whole, after live.Load
		for i := range b.writes {
			write, rest, err := f.flip.once(b.ctx, s.Admin, user, i%2 == 1)
			if err != nil {
				return err
			}
			whole.Each, after.Each = append(whole.Each, write+rest), append(after.Each, rest)
		}
		whole.Sort()
		after.Sort()
		for _, q := range quantiles {
			if err := b.pair(f.name+q.name, n, "ns", []float64{float64(whole.Quantile(q.q))}, "goal", []float64{float64(goal)}); err != nil {
				return err
			}
			if err := b.pair(f.name+"-after"+q.name, n, "ns", []float64{float64(after.Quantile(q.q))}, "goal", []float64{float64(goal)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// flip is a role that is written with and without the right to read an object.
type flip struct {
	role, object string
	with         func(right bool) any
}

// once writes the role, and returns how long that took and for how long the user saw the old decision afterwards.
func (f flip) once(ctx context.Context, admin, user *live.Client, right bool) (write, rest time.Duration, err error) {
	want := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}[right]
	body, err := json.Marshal(f.with(right))
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := admin.Must(ctx, http.MethodPut, f.role, body); err != nil {
		return 0, 0, err
	}
	for written := time.Now(); time.Since(written) < time.Minute; {
		status, text, err := user.Do(ctx, http.MethodGet, f.object, nil)
		switch {
		case err != nil:
			return 0, 0, err
		case status == want:
			return written.Sub(began), time.Since(written), nil
		case status != http.StatusOK && status != http.StatusForbidden:
			return 0, 0, fmt.Errorf("status %d: %s", status, text)
		}
	}
	return 0, 0, errors.New("the change of a role was not effective after a minute")
}

func clusterRoleWith(right bool) any {
	role := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "bench-view"}, Rules: viewRole().Rules}
	if !right {
		role.Rules = role.Rules[1:]
	}
	return role
}

func policyRoleWith(right bool) any {
	verbs := map[bool]string{true: "get", false: "list"}
	return map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "Role", "metadata": map[string]string{"name": "readers", "namespace": workspace},
		"rules": []any{map[string]any{"verbs": []string{verbs[right]}, "resourceKinds": []string{"ConfigMap"}}}}
}

// policyReader lets rita read config maps of a namespace by its policy, and makes one.
func policyReader(ctx context.Context, admin *live.Client) error {
	in := "namespaces/" + workspace + "/"
	for _, o := range []struct {
		path   string
		object any
	}{
		{"/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workspace}}},
		{maps(workspace), configMap("c", 0)},
		{ourPath + in + "policies", json.RawMessage(`{"metadata": {"name": "default"}}`)},
		{ourPath + in + "policybindings", json.RawMessage(fmt.Sprintf(`{"metadata": {"name": %q}}`, workspace))},
		{viewsPath + in + "roles", policyRoleWith(true)},
		{viewsPath + in + "rolebindings", json.RawMessage(fmt.Sprintf(`{"metadata": {"name": "readers"}, "roleRef": {"namespace": %q, "name": "readers"}, "userNames": ["rita"]}`, workspace))},
	} {
		if err := admin.Create(ctx, o.path, o.object); err != nil {
			return err
		}
	}
	return nil
}
