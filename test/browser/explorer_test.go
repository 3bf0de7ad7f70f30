package browser

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// review is what the page is compared with.
type review struct {
	Status struct {
		UserNames, GroupNames  []string
		Conditional, BlockedBy []struct{ UserName, GroupName string }
		Trace                  struct {
			Decision    string
			Authorizers []struct {
				Name, Answer string
				Rules        []struct {
					Rule      string
					Condition *struct {
						Parts []struct{ Expression, Value string }
					}
				}
			}
		}
	}
}

type accessMatrix struct {
	Verbs []string
	Rows  []struct {
		Subjects              []struct{ User, Group, ServiceAccount string }
		Namespaces, Resources []string
		Access                map[string]string
	}
}

type planReport struct {
	Changes []struct {
		Subject                       *subject
		Subjects                      []subject
		Before, After, Relation, Rule string
		Witness                       *struct{}
	}
}

type subject struct{ User, Group, ServiceAccount string }

// EX-5: every screen, in a real browser, on a seeded server: what the page shows is what the engine answers.
func TestExplorer(t *testing.T) {
	chromium(t)
	c := startCluster(t)
	seed, err := os.ReadFile("testdata/seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.await("the seed", func() error {
		_, err := c.try(c.admin, string(seed), "kubectl", "apply", "-f", "-")
		return err
	})
	address := c.explorer(c.admin, "--allow-apply")
	b := newTab(t, address)
	b.run(chromedp.Navigate(address))
	b.wait(`document.querySelector('[data-ready="true"]')`)
	if at := b.text("location.href"); strings.Contains(at, "token") || strings.Contains(at, "key") {
		t.Errorf("the address still has a secret: %s", at)
	}
	on := func(name string, screen func(*testing.T, *cluster, *tab)) {
		t.Run(name, func(t *testing.T) {
			b.t, c.t = t, t
			screen(t, c, b)
			b.quiet()
		})
		b.t, c.t = t, t
	}
	on("who can", whoCan)
	on("why", why)
	on("matrix", matrixOf)
	on("plan", plan)
	on("audit live", auditLive)
	on("playground", playground)
	on("shadow", shadow)
	on("hostile names are text", hostile)
	on("keyboard and names", forEveryone)
	on("narrow and wide, light and dark", windows)
	on("pictures", pictures)
	on("apply after the plan", apply)
	on("apply replaces", applyReplaces)
	on("history and undo", past)
	on("lint", lintOf)
	on("person", person)
	on("access", asked)
	on("no such screen", missing)
	t.Run("used token and no session", func(t *testing.T) { strangers(t, address) })
	t.Run("a user without rights", func(t *testing.T) { withoutRights(t, c) })
	on("a server that goes away", gone)
}

// shown are the names on the cards of a state.
func shown(b *tab, state string) (names []string) {
	b.eval(fmt.Sprintf(`[...document.querySelectorAll('.card[data-state=%q] .chip .name')].map((e) => e.innerText)`, state), &names)
	slices.Sort(names)
	return slices.Compact(names)
}

func people(users, groups []string) (names []string) {
	for _, u := range users {
		if account, ok := strings.CutPrefix(u, "system:serviceaccount:"); ok {
			u = strings.Replace(account, ":", "/", 1)
		}
		names = append(names, u)
	}
	names = append(names, groups...)
	slices.Sort(names)
	return slices.Compact(names)
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: the page shows %q, the engine says %q", what, got, want)
	}
}

// EX-2: who can, grouped by rule; a subject opens Why.
func whoCan(t *testing.T, c *cluster, b *tab) {
	for _, q := range [][2]string{{"update", "deployments.apps"}, {"get", "secrets"}, {"delete", "deployments.apps"}, {"list", "pods"}} {
		b.open("/who-can?" + url.Values{"verb": {q[0]}, "resource": {q[1]}, "namespace": {"hammer"}}.Encode())
		b.eval(`document.querySelectorAll('.chips .more').forEach((e) => e.click())`, nil)
		var want review
		c.engine(&want, "", "who-can", q[0], q[1], "-n", "hammer", "--blocked")
		var conditional, blocked []string
		for _, s := range want.Status.Conditional {
			conditional = append(conditional, s.UserName+s.GroupName)
		}
		for _, s := range want.Status.BlockedBy {
			blocked = append(blocked, s.UserName+s.GroupName)
		}
		what := strings.Join(q[:], " ")
		same(t, what+" always", shown(b, "yes"), people(want.Status.UserNames, want.Status.GroupNames))
		same(t, what+" if", shown(b, "if"), people(conditional, nil))
		same(t, what+" denied", shown(b, "denied"), people(blocked, nil))
		if text := b.text(`document.querySelector('.terminal code').innerText`); text != "$ proviso who-can "+what+" -n hammer --blocked" {
			t.Errorf("the command is %s", text)
		}
	}
	b.open("/who-can?verb=list&resource=pods&namespace=hammer&filter=EDG")
	same(t, "filter", shown(b, "yes"), []string{"edgar"})
	b.eval(`document.querySelector('.card .chip').click()`, nil)
	b.wait(`location.pathname === "/why" && document.querySelector('.verdict')`)
	if at := b.text("location.search"); !strings.Contains(at, "subject=edgar") {
		t.Errorf("a subject opens %s", at)
	}
}

// EX-2: why, as a graph, with the value of every part of a condition, the grant that is missing or the deny in the
// way.
func why(t *testing.T, c *cluster, b *tab) {
	for _, q := range []struct {
		query string
		args  []string
		want  string
	}{
		{"verb=update&resource=deployments.apps&name=cart&namespace=hammer&subject=anna&object=stored", []string{"update", "deployments.apps/cart", "-n", "hammer", "--user", "anna", "--stored"}, "NoOpinion"},
		{"verb=update&resource=deployments.apps&name=web&namespace=hammer&subject=anna&object=stored", []string{"update", "deployments.apps/web", "-n", "hammer", "--user", "anna", "--stored"}, "Allow"},
		{"verb=delete&resource=deployments.apps&name=web&namespace=hammer&subject=edgar&object=stored", []string{"delete", "deployments.apps/web", "-n", "hammer", "--user", "edgar", "--stored"}, "Deny"},
		{"verb=delete&resource=deployments.apps&namespace=hammer&subject=edgar", []string{"delete", "deployments.apps", "-n", "hammer", "--user", "edgar"}, "Conditional"},
		{"verb=get&resource=pods&namespace=hammer&subject=group%3Anobody", []string{"get", "pods", "-n", "hammer", "--group", "nobody"}, "NoOpinion"},
		{"verb=get&resource=pods&namespace=hammer", []string{"get", "pods", "-n", "hammer"}, "Allow"},
	} {
		b.open("/why?" + q.query)
		var want review
		c.engine(&want, "", append([]string{"explain"}, q.args...)...)
		trace := want.Status.Trace
		if got := b.text(`document.querySelector('.verdict').dataset.decision`); got != trace.Decision || got != q.want {
			t.Errorf("%s: the page shows %s, the engine says %s, want %s", q.query, got, trace.Decision, q.want)
		}
		var rules, parts, wantRules, wantParts []string
		b.eval(`[...document.querySelectorAll('.chain .rule .ruletext')].map((e) => e.innerText.split("\n")[0])`, &rules)
		b.eval(`[...document.querySelectorAll('.chain .parts tbody tr')].map((r) => r.innerText.replace(/[✓–] /, "").replace("\t", " = "))`, &parts)
		for _, a := range trace.Authorizers {
			for _, r := range a.Rules {
				title := r.Rule
				if i := strings.LastIndex(title, " ("); i > 0 && strings.HasSuffix(title, ")") && !strings.Contains(title[i+2:len(title)-1], "(") {
					title = title[i+2 : len(title)-1]
				}
				wantRules = append(wantRules, title)
				if r.Condition != nil && len(r.Condition.Parts) > 1 {
					for _, p := range r.Condition.Parts {
						wantParts = append(wantParts, p.Expression+" = "+p.Value)
					}
				}
			}
		}
		same(t, q.query+" rules", rules, wantRules)
		same(t, q.query+" parts", parts, wantParts)
		if remedy := b.text(`document.querySelector('.remedy')?.innerText || ""`); (remedy == "") != (q.want == "Allow") {
			t.Errorf("%s: what would change it: %q", q.query, remedy)
		}
	}
	b.open("/why?verb=update&resource=deployments.apps&name=cart&namespace=hammer&subject=anna&object=stored")
	b.eval(`[...document.querySelectorAll('.remedy button')].find((e) => e.innerText === "See its plan").click()`, nil)
	b.wait(`location.pathname === "/plan" && document.querySelector('.tally')`)
	if got := b.text(`document.querySelector('.tally .gains strong').innerText`); got != "1" {
		t.Errorf("the plan of the grant: %s gain", got)
	}
}

// EX-2: every cell of the matrix.
func matrixOf(t *testing.T, c *cluster, b *tab) {
	b.open("/matrix?subjects=edgar%2Canna&namespaces=hammer")
	b.eval(`document.querySelectorAll('.fold[aria-expanded="false"]').forEach((e) => e.click())`, nil)
	b.wait(`!document.querySelector('.fold[aria-expanded="false"]')`)
	b.eval(`document.querySelectorAll('.more').forEach((e) => e.click())`, nil)
	b.wait(`!document.querySelector('.more')`)
	var got, want []string
	b.eval(`[...document.querySelectorAll('tr.line')].flatMap((row) => [...row.querySelectorAll('.chip .name')].flatMap((who) => row.querySelector('.what').innerText.split(", ").flatMap((what) =>
		[...row.querySelectorAll('td.cell')].map((cell) => [who.innerText, what.trim(), cell.dataset.verb, cell.innerText.replace(/[^a-z]/g, "") || "no"].join(" ")))))`, &got)
	var m accessMatrix
	c.engine(&m, "", "matrix", "--user", "edgar", "--user", "anna", "-n", "hammer")
	for _, row := range m.Rows {
		for _, who := range row.Subjects {
			for _, what := range row.Resources {
				for _, verb := range m.Verbs {
					access := strings.ToLower(row.Access[verb])
					if access == "" {
						access = "no"
					}
					want = append(want, strings.Join([]string{who.User + who.Group, what, verb, access}, " "))
				}
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(want) < 100 {
		t.Fatalf("only %d cells", len(want))
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%d cells on the page, %d of the engine; cell %d differs: %q, %q", len(got), len(want), i, at(got, i), at(want, i))
		}
	}
	for _, state := range []string{"yes", "if", "no", "denied"} {
		if !slices.ContainsFunc(got, func(cell string) bool { return strings.HasSuffix(cell, " "+state) }) {
			t.Errorf("no cell is %s", state)
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "(none)"
}

func change(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/change.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// EX-2: the plan of a change, with objects that show it.
func plan(t *testing.T, c *cluster, b *tab) {
	b.open("/plan?" + url.Values{"yaml": {change(t)}}.Encode())
	var want planReport
	c.engine(&want, change(t), "plan", "-f", "-")
	strength := map[string]int{"If": 1, "Yes": 2}
	found, witnesses := map[string][]string{}, 0
	for _, one := range want.Changes {
		way := "changes"
		switch d := strength[one.After] - strength[one.Before]; {
		case d > 0 || d == 0 && one.Relation == "wider":
			way = "gains"
		case d < 0 || one.Relation == "narrower":
			way = "loses"
		}
		if one.Subject != nil {
			one.Subjects = append(one.Subjects, *one.Subject)
		}
		for _, s := range one.Subjects {
			found[way] = append(found[way], s.User+s.Group+s.ServiceAccount)
		}
		if one.Witness != nil {
			witnesses++
		}
	}
	for _, way := range []string{"gains", "loses", "changes"} {
		names := found[way]
		slices.Sort(names)
		names = slices.Compact(names)
		if got := b.text(`document.querySelector('.tally .` + way + ` strong').innerText`); got != fmt.Sprint(len(names)) {
			t.Errorf("%s: the page counts %s, the engine says %v", way, got, names)
		}
		var shown []string
		b.eval(`[...document.querySelectorAll('.card.`+way+` .chip .name')].map((e) => e.innerText)`, &shown)
		slices.Sort(shown)
		if shown = slices.Compact(shown); len(names) > 0 {
			same(t, way, shown, names)
		}
	}
	if witnesses == 0 || b.text(`document.querySelector('.change details pre')?.textContent.includes('"replicas"')`) != "true" {
		t.Errorf("%d counterexamples, none is shown", witnesses)
	}
}

// EX-2: events as they happen, with their decisions; a row opens Why.
func auditLive(t *testing.T, c *cluster, b *tab) {
	anna := c.user("anna")
	b.open("/audit?user=anna")
	b.wait(`document.querySelector('.live.on') && document.querySelector('.terminal')`)
	c.await("the event", func() error {
		_, _ = c.try(anna, "", "kubectl", "get", "secrets", "-n", "hammer") // it is refused
		if text := b.text("document.querySelector('.events')?.innerText || ''"); !strings.Contains(text, "refused 403") || !strings.Contains(text, "secrets") {
			return fmt.Errorf("the page shows %q", text)
		}
		return nil
	})
	b.eval(`[...document.querySelectorAll('.events tbody tr')].find((r) => r.innerText.includes("secrets")).querySelector('button').click()`, nil)
	b.wait(`location.pathname === "/why" && document.querySelector('.verdict')`)
	if got := b.text(`document.querySelector('.verdict').dataset.decision + " " + location.search`); !strings.HasPrefix(got, "NoOpinion") || !strings.Contains(got, "subject=anna") {
		t.Errorf("the row opens %s", got)
	}
}

// write puts text into a field as a person would.
func write(b *tab, label, text string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`(() => { const field = [...document.querySelectorAll('label')].find((l) => l.innerText.trim() === %q).control;
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, %q); field.dispatchEvent(new Event('input', {bubbles: true})); field.focus(); })()`, label, text), nil)
}

// EX-2: a rule, a real object, the decision as one types, and fields with their types.
func playground(t *testing.T, _ *cluster, b *tab) {
	b.open("/playground")
	decision := func(want string) {
		t.Helper()
		b.wait(fmt.Sprintf(`document.querySelector('.outcome .verdict')?.dataset.decision === %q`, want))
	}
	decision("NoOpinion")
	write(b, "The rule", "verbs: [create]\nresourceKinds: [deployments.apps]\nwhen: object.spec.replicas <= 7\n")
	decision("Allow")
	write(b, "The rule", "deny: true\nverbs: [create]\nresourceKinds: [deployments.apps]\nwhen: object.spec.replicas <= 7\n")
	decision("Deny")
	write(b, "The rule", "verbs: [create]\nresourceKinds: [deployments.apps]\nwhen: object.spec.replicas <=\n")
	b.wait(`document.querySelector('.outcome .trouble')`)
	// A real object.
	write(b, "Namespace", "hammer")
	write(b, "Name", "web")
	b.wait(`[...document.querySelectorAll('button')].find((e) => e.innerText.startsWith("Take this object") && !e.disabled)`)
	b.eval(`[...document.querySelectorAll('button')].find((e) => e.innerText.startsWith("Take this object")).click()`, nil)
	b.wait(`[...document.querySelectorAll('textarea')].some((e) => e.value.includes("protected:"))`)
	write(b, "The rule", "verbs: [create]\nresourceKinds: [deployments.apps]\nwhen: object.spec.replicas == 3\n")
	decision("Allow")
	// Completion by the schema.
	write(b, "The rule", "when: object.spec.repl")
	b.run(chromedp.KeyEvent("i"))
	b.wait(`document.querySelector('.offer li[aria-selected="true"]')`)
	if got := b.text(`document.querySelector('.offer li').innerText`); !strings.Contains(got, "replicas") || !strings.Contains(got, "int") {
		t.Errorf("offered is %q", got)
	}
	// The driver's Enter writes a line even where a page has taken the key.
	b.eval(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}))`, nil)
	b.wait(`[...document.querySelectorAll('textarea')].some((e) => e.value === "when: object.spec.replicas")`)
}

// EX-5: what a name says is shown, not done.
func hostile(t *testing.T, _ *cluster, b *tab) {
	const name = "<img src=x onerror=alert(3)>"
	for path, want := range map[string]string{
		"/who-can?verb=update&resource=deployments.apps&namespace=hammer": "<script>alert(2)</script>",
		"/who-can?verb=list&resource=pods&namespace=hammer":               name,
		"/matrix?namespaces=hammer":                                       name,
		"/why?" + url.Values{"verb": {"update"}, "resource": {"deployments.apps"}, "namespace": {"hammer"}, "name": {"web"}, "object": {"stored"}, "subject": {name}}.Encode(): "<script>alert(2)</script>",
		"/who-can?" + url.Values{"verb": {name}, "resource": {name}, "namespace": {name}}.Encode():                                                                             name,
		"/audit?" + url.Values{"user": {name}}.Encode(): "<img",
	} {
		b.open(path)
		b.wait(fmt.Sprintf(`document.body.innerText.includes(%q)`, want))
		if n := b.text(`document.querySelectorAll('#app img:not([src^="/assets/"]), #app script').length`); n != "0" {
			t.Errorf("%s: %s elements were made of names", path, n)
		}
	}
}

// EX-2: what rules that are not enforced would have done, as `proviso shadow` counts it.
func shadow(t *testing.T, c *cluster, b *tab) {
	b.open("/shadow")
	if text := b.text(`document.querySelector('.answer').innerText`); !strings.Contains(text, "Everything is enforced") {
		t.Errorf("without such rules the page says %q", text)
	}
	policy, err := os.ReadFile("../../examples/shadow-rule/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.must(c.admin, string(policy), "kubectl", "apply", "-f", "-")
	type list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Applied, WouldAllow, WouldDeny, Undecided int }
		}
	}
	var want list
	n := 0
	c.await("a request that the rule would deny", func() error {
		n++
		if _, err := c.try(c.admin, "", "kubectl", "create", "configmap", fmt.Sprint("login-", n), "--from-literal=password=1", "--as", "sally", "-n", "hammer"); err != nil {
			return err
		}
		want = list{}
		c.engine(&want, "", "shadow", "-A")
		if len(want.Items) != 1 || want.Items[0].Status.WouldDeny == 0 {
			return fmt.Errorf("%+v", want)
		}
		return nil
	})
	b.open("/shadow?again=1")
	var cards, figures, users []string
	b.eval(`[...document.querySelectorAll('.card[data-rule]')].map((e) => e.dataset.rule)`, &cards)
	b.eval(`[...document.querySelectorAll('.card .figures dd')].slice(0, 4).map((e) => e.innerText)`, &figures)
	b.eval(`[...document.querySelectorAll('.card tbody tr td:nth-child(2)')].map((e) => e.innerText)`, &users)
	got := want.Items[0].Status
	same(t, "rules", cards, []string{want.Items[0].Metadata.Name})
	same(t, "figures", figures, []string{fmt.Sprint(got.Applied), fmt.Sprint(got.WouldAllow), fmt.Sprint(got.WouldDeny), fmt.Sprint(got.Undecided)})
	same(t, "users", slices.Compact(users), []string{"sally"})
}
