package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/bench/live"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

const (
	// verifyGoal and tokenGoal are what TK-11 allows.
	verifyGoal = 20 * time.Microsecond
	tokenGoal  = 2 * time.Microsecond
	tokenSize  = 1024
)

// tokenRules allow reading config maps. The description of the token and a condition that holds make it 1 KiB.
func tokenRules(length int) []accessv1alpha1.TokenRule {
	return []accessv1alpha1.TokenRule{{PolicyRule: policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"configmaps"}, Description: strings.Repeat("x", length)},
		Namespaces: []string{metav1.NamespaceDefault}}}
}

// verifying is verifying and reading a narrowed token of 1 KiB, as it is done for each request. The peer is the goal.
func verifying(b *bench) error {
	const name = "token-verify"
	if !b.wanted(name) {
		return nil
	}
	key, err := narrowedtoken.NewKey(bytes.Repeat([]byte{7}, narrowedtoken.KeySize))
	if err != nil {
		return err
	}
	p := narrowedtoken.Payload{ID: strings.Repeat("0", 32), Issued: 1, Expires: 2, User: narrowedtoken.User{Name: "edgar", Groups: []string{"dev", "system:authenticated"}}}
	token := ""
	for length := 0; len(token) < tokenSize; length++ {
		if token, err = narrowedtoken.New(key, p, narrowedtoken.Link{Rules: tokenRules(length), Description: "build agent"}); err != nil {
			return err
		}
	}
	times, _, err := b.alternate([]side{{"proviso", func() error { _, err := narrowedtoken.Verify(narrowedtoken.Keys{key}, token); return err }}})
	if err != nil {
		return err
	}
	return b.pair(name, len(token), "ns", times[0], "goal", []float64{float64(verifyGoal)})
}

// tokens is a get by a service account with a narrowed token of 1 KiB, and by the same one with the token of Kubernetes
// that has asked for it. Figures are warm: both tokens are known. The processor time of the one beyond the other is
// compared with what TK-11 allows.
func tokens(b *bench) error {
	const name = "e2e-token-get"
	if !b.wantsRead(name) && !b.wanted(name+"-more") {
		return nil
	}
	bins, err := b.binaries()
	if err != nil {
		return err
	}
	s, err := live.StartProviso(b.ctx, bins, "tokens", "--feature-gates", "NarrowedTokens=true")
	if err != nil {
		return err
	}
	defer s.Stop()
	account, narrowed, err := tokenHolders(b.ctx, s.Admin)
	if err != nil {
		return err
	}
	const path = "/api/v1/namespaces/default/configmaps/one"
	for _, c := range []*live.Client{account, narrowed} {
		if err := eventually(b.ctx, func() error { return c.Must(b.ctx, http.MethodGet, path, nil) }); err != nil {
			return err
		}
	}
	measured, err := b.readInTurn(s, readBy{narrowed, path}, readBy{account, path})
	if err != nil {
		return err
	}
	for f, figure := range readFigures {
		if err := b.pair(name+figure, tokenSize, "ns", measured[0][f], "service-account", measured[1][f]); err != nil {
			return err
		}
	}
	more := make([]float64, len(measured[0][1]))
	for i := range more {
		more[i] = max(1, measured[0][1][i]-measured[1][1][i])
	}
	return b.pair(name+"-more", tokenSize, "ns", more, "goal", []float64{float64(tokenGoal)})
}

// tokenHolders are a service account that may read config maps, and the same one with a narrowed token.
func tokenHolders(ctx context.Context, admin *live.Client) (account, narrowed *live.Client, err error) {
	meta := metav1.ObjectMeta{Name: "robot", Namespace: metav1.NamespaceDefault}
	for _, o := range []struct {
		path   string
		object any
	}{
		{"/api/v1/namespaces/default/configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}},
		{"/api/v1/namespaces/default/serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta}},
		{rbacPath + "clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "robot"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
			{Verbs: []string{"create"}, APIGroups: []string{accessv1alpha1.GroupName}, Resources: []string{"narrowedtokens"}}}}},
		{rbacPath + "clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "robot"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "robot"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}}}},
	} {
		if err := admin.Create(ctx, o.path, o.object); err != nil {
			return nil, nil, err
		}
	}
	jwt := &authenticationv1.TokenRequest{}
	if err := asked(ctx, admin, "/api/v1/namespaces/default/serviceaccounts/robot/token", jwt); err != nil {
		return nil, nil, err
	}
	if account, err = admin.Bearing(jwt.Status.Token); err != nil {
		return nil, nil, err
	}
	token := &accessv1alpha1.NarrowedToken{}
	err = eventually(ctx, func() error {
		token.Spec = accessv1alpha1.NarrowedTokenSpec{Rules: tokenRules(120), Description: "build agent"}
		return asked(ctx, account, "/apis/"+accessv1alpha1.SchemeGroupVersion.String()+"/narrowedtokens", token)
	})
	if err != nil {
		return nil, nil, err
	}
	narrowed, err = admin.Bearing(token.Status.Token)
	return account, narrowed, err
}

// asked posts an object and reads the answer into it.
func asked(ctx context.Context, by *live.Client, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	status, text, err := by.Do(ctx, http.MethodPost, path, body)
	if err == nil && status >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: status %d: %s", path, status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, object)
}
