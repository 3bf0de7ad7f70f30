package authzwebhook

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/client-go/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/test/law"
)

// oracle is a webhook whose answer is a function of the whole question and of nothing else.
func oracle(t testing.TB) (at string, asked *atomic.Int64) {
	statuses := []string{
		`{"allowed":true,"reason":"yes"}`, `{"denied":true,"reason":"no"}`, `{"reason":"who knows"}`, `{"allowed":true,"denied":true}`, `{"allowed":true}`,
		chainOf("", cond("a", reviewv1.EffectAllow, expr.TypeCEL, isDev)),
		chainOf("", cond("d", reviewv1.EffectDeny, expr.TypeCEL, isDev), cond("a", reviewv1.EffectAllow, expr.TypeCEL, "true")),
		chainOf("", cond("n", reviewv1.EffectNoOpinion, expr.TypeCEL, "object.data.missing == 'x'"), cond("a", reviewv1.EffectAllow, expr.TypeCEL, "true")),
	}
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		sum := fnv.New32a()
		if _, err := io.Copy(sum, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":%s}`, statuses[sum.Sum32()%uint32(len(statuses))])
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func hook(t testing.TB, at string, ttl time.Duration) *Webhook {
	t.Helper()
	compiler, err := compilerOnce()
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Name: "hook", Reviews: &rest.Config{Host: at + "/reviews", QPS: -1}, Conditions: &rest.Config{Host: at + "/conditions", QPS: -1}, Version: "v1",
		AuthorizedTTL: ttl, UnauthorizedTTL: ttl, Backoff: wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 2}, Compiler: authorizationcel.NewDefaultCompiler(), CEL: authorize.NewCELConditions(compiler)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// drawQuestion draws from so small a universe that many questions come again, and differ in one thing from others.
func drawQuestion(pick func(int) int) authorizer.AttributesRecord {
	one := func(of ...string) string { return of[pick(len(of))] }
	a := create()
	a.User = &user.DefaultInfo{Name: one("edgar", "hubert"), Groups: [][]string{nil, {"team-a"}, {"team-a", "team-b"}}[pick(3)]}
	a.Verb, a.Resource, a.Name = one("create", "update", "delete", "get"), one("configmaps", "secrets"), one("", "x")
	a.Namespace, a.Subresource = one("n", "m"), one("", "", "status")
	return a
}

// cachedEqualsUncached asks both and compares what they say and what it comes to.
func cachedEqualsUncached(t *testing.T, keeps, forgets *Webhook, pick func(int) int, seen map[string]int) (cases int) {
	t.Helper()
	for range 40 {
		a, env := drawQuestion(pick), []string{"dev", "prod"}[pick(2)]
		if pick(3) == 0 { // a caller that cannot handle conditions
			got, gotReason, _ := keeps.Authorize(t.Context(), a)
			want, wantReason, _ := forgets.Authorize(t.Context(), a)
			if got != want || gotReason != wantReason {
				t.Fatalf("%+v: cached %s %q, uncached %s %q", a, finals[got], gotReason, finals[want], wantReason)
			}
			cases++
			continue
		}
		got, want := keeps.ConditionsAwareAuthorize(t.Context(), a), forgets.ConditionsAwareAuthorize(t.Context(), a)
		if name(got) != name(want) || got.Reason() != want.Reason() {
			t.Fatalf("%+v: cached %s, uncached %s", a, got, want)
		}
		seen[name(got)]++
		if got.IsConditionsMap() {
			x, _, _ := keeps.EvaluateConditions(t.Context(), got, createOf(env))
			y, _, _ := forgets.EvaluateConditions(t.Context(), want, createOf(env))
			if x != y {
				t.Fatalf("%+v with %s: cached %s, uncached %s", a, env, finals[x], finals[y])
			}
		}
		cases++
	}
	return cases
}

// CA-17: a webhook with a cache decides as one without.
func TestCachedEqualsUncached(t *testing.T) {
	at, asked := oracle(t)
	keeps, forgets := hook(t, at, time.Hour), hook(t, at, 0)
	total, seen := 0, map[string]int{}
	law.Rounds(t, 20, func(seed int64) int {
		n := cachedEqualsUncached(t, keeps, forgets, rand.New(rand.NewPCG(uint64(seed), 3)).IntN, seen)
		total += n
		return n
	})
	if saved := 2*total - int(asked.Load()); saved < total/4 || saved > total {
		law.TooFew(t, "%d questions of %d were answered from the cache: too few or too many to prove anything", saved, total)
	}
	for _, d := range []string{"Allow", "Deny", "NoOpinion", "Conditions"} {
		if seen[d] < 10 {
			law.TooFew(t, "answers %v: too few of %s to prove anything", seen, d)
		}
	}
}

func FuzzCachedEqualsUncached(f *testing.F) {
	at, _ := oracle(f)
	keeps, forgets := hook(f, at, time.Hour), hook(f, at, 0)
	law.Fuzz(f, func(t *testing.T, pick func(int) int) {
		cachedEqualsUncached(t, keeps, forgets, pick, map[string]int{})
	})
}
