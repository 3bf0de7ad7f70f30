package browser

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// bob is bound, and then he is not: what a set has lost is what an apply would keep.
const bob = `apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: bobs, namespace: hammer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}
`

// EX-1: what the plan says is what becomes: a subject that it takes away is gone.
func applyReplaces(t *testing.T, c *cluster, b *tab) {
	c.must(c.admin, bob+"- {apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}\n", "kubectl", "apply", "-f", "-")
	c.await("bob's right", func() error {
		_, err := c.try(c.admin, "", "kubectl", "get", "pods", "-n", "hammer", "--as", "bob")
		return err
	})
	b.open("/plan?" + url.Values{"yaml": {bob}}.Encode())
	if text := b.text(`document.querySelector('.answer').innerText`); !strings.Contains(text, "bob") {
		t.Errorf("the plan does not say that bob loses something: %s", text)
	}
	b.eval(`[...document.querySelectorAll('button')].find((e) => e.innerText === "Apply this").click()`, nil)
	b.wait(`document.querySelector('.done')`)
	if out := c.must(c.admin, "", "kubectl", "get", "rolebinding.rbac.authorization.k8s.io", "bobs", "-n", "hammer", "-o", "yaml"); strings.Contains(out, "name: bob\n") || !strings.Contains(out, "alice") {
		t.Errorf("bob keeps what the plan takes away: %s", out)
	}
}

// EX-2: the history, with undo: a change is planned back, and taken back.
func past(t *testing.T, c *cluster, b *tab) {
	b.open("/history?namespace=hammer")
	b.wait(`[...document.querySelectorAll('tr[data-revision]')].some((e) => e.innerText.includes("hammer/bobs"))`)
	b.eval(`[...document.querySelectorAll('tr[data-revision]')].find((e) => e.innerText.includes("hammer/bobs")).querySelector('button').click()`, nil)
	b.wait(`document.querySelector('[data-undo][data-ready="true"]')?.innerText.includes("bob")`)
	b.eval(`[...document.querySelectorAll('[data-undo] button')].find((e) => e.innerText === "Undo it").click()`, nil)
	c.await("bob's right", func() error {
		_, err := c.try(c.admin, "", "kubectl", "get", "pods", "-n", "hammer", "--as", "bob")
		return err
	})
}

// EX-2: what the linter finds is what the page shows.
func lintOf(t *testing.T, c *cluster, b *tab) {
	var want struct{ Findings []struct{ Code string } }
	c.engine(&want, "", "lint")
	b.open("/lint")
	var codes []string
	b.eval(`document.querySelectorAll('.more').forEach((e) => e.click())`, nil)
	b.eval(`[...document.querySelectorAll('tr[data-code]')].map((e) => e.dataset.code)`, &codes)
	if len(codes) != len(want.Findings) {
		t.Errorf("%d findings are shown, want %d", len(codes), len(want.Findings))
	}
}

// EX-2: what one person may do everywhere, by role.
func person(t *testing.T, c *cluster, b *tab) {
	b.open("/person?subject=alice")
	if text := b.text(`document.querySelector('.answer').innerText`); !strings.Contains(text, "view") || !strings.Contains(text, "alice") {
		t.Errorf("alice: %s", text)
	}
}

// EX-2: what is not there is said with the screens around it.
func missing(t *testing.T, _ *cluster, b *tab) {
	b.eval(`fetch("/nosuch").then((r) => { window.status404 = r.status })`, nil)
	b.wait(`window.status404 === 404`)
	b.eval(`history.pushState({}, "", "/nosuch"), dispatchEvent(new PopStateEvent("popstate"))`, nil)
	b.wait(`document.querySelector('main').innerText.includes("There is no such screen") && document.querySelector('nav a')`)
}

// onCall lets carla ask for a role.
const onCall = `apiVersion: access.proviso.dev/v1alpha1
kind: AccessRule
metadata: {name: on-call}
spec:
  subjects: {userNames: [carla]}
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
  namespaces: [hammer]
  maxDurationSeconds: 7200
  approvals: {count: 1, subjects: {groupNames: ["system:masters"]}}
`

// EX-2: what was asked for is what the page shows: pending and active requests, and the others if one asks for them. It
// has no button that decides.
func asked(t *testing.T, c *cluster, b *tab) {
	c.await("the rule", func() error {
		_, err := c.try(c.admin, onCall, "kubectl", "apply", "-f", "-")
		return err
	})
	carla := c.user("carla")
	for i, reason := range []string{"INC-1", "<img src=x onerror=alert(1)>", "INC-3"} {
		name := ""
		c.await("a request", func() error {
			out, err := c.try(carla, "", "access", "request", "on-call", "-n", "hammer", "--for", "1h", "--reason", reason, "-o", "name")
			if err == nil && !strings.Contains(out, "/") {
				err = errors.New("not yet")
			}
			name = strings.TrimSpace(out[strings.LastIndex(out, "/")+1:])
			return err
		})
		switch i {
		case 0:
			c.must(c.admin, "", "access", "approve", name, "-n", "hammer")
		case 2:
			c.must(c.admin, "", "access", "deny", name, "-n", "hammer")
		}
	}
	var want struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ State string }
		}
	}
	c.engine(&want, "", "access", "list", "-n", "hammer")
	for query, states := range map[string][]string{"": {"Pending", "Active"}, "&show=all": {"Pending", "Active", "Denied", "Ended"}} {
		wanted := map[string]string{}
		for _, r := range want.Items {
			if slices.Contains(states, r.Status.State) {
				wanted["hammer/"+r.Metadata.Name] = r.Status.State
			}
		}
		b.open("/access?namespace=hammer" + query)
		got := map[string]string{}
		b.eval(`Object.fromEntries([...document.querySelectorAll('tr[data-request]')].map((e) => [e.dataset.request, e.dataset.state]))`, &got)
		if !maps.Equal(got, wanted) || len(got) < 2 {
			t.Errorf("%q shows %v, want %v", query, got, wanted)
		}
	}
	if text := b.text(`document.querySelector('.answer').innerText`); !strings.Contains(text, "<img src=x") || !strings.Contains(text, "proviso access list") {
		t.Errorf("the page shows %s", text)
	}
	if n := b.text(`"" + document.querySelectorAll('.answer tbody button').length`); n != "0" {
		t.Errorf("%s buttons stand beside the requests", n)
	}
}
