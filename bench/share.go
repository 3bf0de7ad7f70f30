package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/bench/live"
	"proviso.dev/proviso/internal/request/enforce"
)

// share is how much of a write is our work, as the server itself measures it: deciding the request in the authorization
// filter and enforcing it in admission, against everything from receiving the request to having answered it, with a
// real etcd below. Giving the request its policy snapshot is a pointer and a few hundred bytes; it is in neither
// figure.
//
// The last figure is the authorization of the same update in a stock server, which is part of the others as well.
func share(b *bench) error {
	const conditional, plain, authorization = "share-of-conditional-create", "share-of-plain-update", "share-authorization-of-plain-update"
	if !b.wanted(conditional) && !b.wanted(plain) && !b.wanted(authorization) && !b.wanted(heldShare) {
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
	edgar, err := s.User("edgar", "team-a")
	if err != nil {
		return err
	}
	if err := oneConditionalRule(b.ctx, s.Admin); err != nil {
		return err
	}
	n := 0
	write := func(edgar *live.Client, method, path string) func(context.Context, int) error {
		return func(ctx context.Context, _ int) error {
			name := "shared"
			if method == http.MethodPost {
				name = fmt.Sprint("share-", n)
			}
			body, err := json.Marshal(configMap(name, n))
			n++
			if err != nil {
				return err
			}
			return edgar.Must(ctx, method, path, body)
		}
	}
	create := write(edgar, http.MethodPost, maps(workspace))
	if err := eventually(b.ctx, func() error { return create(b.ctx, 0) }); err != nil {
		return err
	}
	// One condition applies, and is met.
	_, handler, err := b.stages(s, conditional, "POST", "CREATE", true, create)
	if err != nil {
		return err
	}
	if err := b.held(handler); err != nil {
		return err
	}
	// No condition applies, and no field is exclusive: what everybody pays (FP-13).
	if err := oneGeneralWriter(b.ctx, s.Admin); err != nil {
		return err
	}
	update := write(edgar, http.MethodPut, maps(workspace)+"/shared")
	if err := eventually(b.ctx, func() error { return update(b.ctx, 0) }); err != nil {
		return err
	}
	ours, _, err := b.stages(s, plain, "PUT", "UPDATE", false, update)
	if err != nil || !b.wanted(authorization) {
		return err
	}
	stock, err := live.StartStock(b.ctx, bins, "stock")
	if err != nil {
		return err
	}
	defer stock.Stop()
	if edgar, err = stock.User("edgar", "team-a"); err != nil {
		return err
	}
	if err := stock.Admin.Create(b.ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workspace}}); err != nil {
		return err
	}
	if err := oneGeneralWriter(b.ctx, stock.Admin); err != nil {
		return err
	}
	update = write(edgar, http.MethodPut, maps(workspace)+"/shared")
	if err := eventually(b.ctx, func() error { return update(b.ctx, 0) }); err != nil {
		return err
	}
	theirs, _, err := b.stages(stock, "", "PUT", "UPDATE", false, update)
	if err != nil {
		return err
	}
	return b.pair(authorization, 1, "ns", ours, "stock", theirs)
}

// stages lets one client write and compares the time in our stages with that in the handler, unless it has no name. It
// returns the times in authorization and in the handler.
func (b *bench) stages(s *live.Server, name, verb, operation string, conditional bool, write func(context.Context, int) error) (authorization, all []float64, _ error) {
	var ours []float64
	for range b.turns {
		before, err := stageTimes(b.ctx, s.Admin, verb, operation)
		if err != nil {
			return nil, nil, err
		}
		if _, err := live.During(b.ctx, 1, b.stretch, write); err != nil {
			return nil, nil, err
		}
		after, err := stageTimes(b.ctx, s.Admin, verb, operation)
		if err != nil {
			return nil, nil, err
		}
		writes := after["writes"] - before["writes"]
		if writes == 0 || conditional == (after["enforced"] == before["enforced"]) {
			return nil, nil, fmt.Errorf("%s: %v writes, %v conditions were enforced", name, writes, after["enforced"]-before["enforced"])
		}
		authorization = append(authorization, 1e9*(after["authorization"]-before["authorization"])/writes)
		// Whatever else the server authorized meanwhile is counted as ours too.
		ours = append(ours, 1e9*(after["authorization"]-before["authorization"]+after["enforcer"]-before["enforcer"])/writes)
		all = append(all, 1e9*(after["handler"]-before["handler"])/writes)
	}
	if name == "" || !b.wanted(name) {
		return authorization, all, nil
	}
	return authorization, all, b.pair(name, 1, "ns", ours, "handler", all)
}

// oneGeneralWriter lets edgar update config maps, whatever is in them.
func oneGeneralWriter(ctx context.Context, admin *live.Client) error {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + workspace + "/"
	for _, o := range []struct{ path, text string }{
		{rbac + "roles", `{"metadata": {"name": "editors"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["update"]}]}`},
		{rbac + "rolebindings", `{"metadata": {"name": "editors"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "editors"},
			"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "edgar"}]}`},
		{maps(workspace), `{"metadata": {"name": "shared"}}`},
	} {
		if err := admin.Must(ctx, http.MethodPost, o.path, []byte(o.text)); err != nil {
			return err
		}
	}
	return nil
}

// oneConditionalRule lets edgar create config maps of their team.
func oneConditionalRule(ctx context.Context, admin *live.Client) error {
	if err := admin.Create(ctx, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workspace}}); err != nil {
		return err
	}
	const views = "/apis/authorization.proviso.dev/v1alpha1/namespaces/" + workspace + "/"
	for _, o := range []struct{ path, text string }{
		{ourPath + "namespaces/" + workspace + "/policies", `{"metadata": {"name": "default"}}`},
		{ourPath + "namespaces/" + workspace + "/policybindings", fmt.Sprintf(`{"metadata": {"name": %q}}`, workspace)},
		{views + "roles", `{"metadata": {"name": "writers"}, "rules": [
			{"verbs": ["create"], "resourceKinds": ["ConfigMap"], "where": "resource.metadata.labels['team'] == 'a'"}]}`},
		{views + "rolebindings", fmt.Sprintf(`{"metadata": {"name": "writers"}, "roleRef": {"namespace": %q, "name": "writers"}, "userNames": ["edgar"]}`, workspace)},
	} {
		if err := admin.Must(ctx, http.MethodPost, o.path, []byte(o.text)); err != nil {
			return err
		}
	}
	return nil
}

// stageTimes reads the seconds that the server has spent, from its metrics.
func stageTimes(ctx context.Context, admin *live.Client, verb, operation string) (map[string]float64, error) {
	status, text, err := admin.Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("metrics: status %d: %w", status, err)
	}
	requests := `resource="configmaps",scope="resource",subresource="",verb="` + verb + `"`
	wanted := []struct{ name, metric, labels string }{
		{"authorization", "apiserver_authorization_duration_seconds_sum", ""}, {"authorization", "authorization_duration_seconds_sum", ""},
		{"enforcer", "apiserver_admission_controller_admission_duration_seconds_sum", `name="` + enforce.Name + `",operation="` + operation + `"`},
		{"enforced", "proviso_enforcement_decisions_total", `decision="Allow"`},
		{"handler", "apiserver_request_duration_seconds_sum", requests}, {"writes", "apiserver_request_duration_seconds_count", requests},
	}
	sums := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		metric, labels, _ := strings.Cut(series, "{")
		for _, w := range wanted {
			if metric == w.metric && strings.Contains(labels, w.labels) {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return nil, fmt.Errorf("metrics: %s: %w", series, err)
				}
				sums[w.name] += v
			}
		}
	}
	for _, w := range wanted {
		if _, ok := sums[w.name]; !ok && w.name != "enforced" && w.name != "enforcer" && w.name != "handler" && w.name != "writes" {
			return nil, fmt.Errorf("metrics: the server does not report %s", w.metric)
		}
	}
	return sums, nil
}
