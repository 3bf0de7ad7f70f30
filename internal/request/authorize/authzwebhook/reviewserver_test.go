package authzwebhook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/api/authorizationreview/reviewserver"
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/test/law"
)

// author is a webhook as its author writes it with the package. Texts say what conditions come to.
type author struct {
	set reviewv1.SubjectAccessReviewConditionSet
}

func (a *author) Decide(context.Context, *reviewv1.SubjectAccessReviewSpec) (reviewserver.Decision, error) {
	return reviewserver.UnderWith(a.set.FailureMode, a.set.Conditions...), nil
}

func (a *author) Met(_ context.Context, e *reviewserver.Evaluation) (bool, error) {
	switch text := strings.TrimSpace(e.Condition.Condition); text {
	case "true", "false":
		return text == "true", nil
	}
	return false, errors.New("unknown")
}

// drawSet draws sets of which some are malformed.
func drawSet(pick func(int) int) (set reviewv1.SubjectAccessReviewConditionSet) {
	set.FailureMode = []reviewv1.FailureMode{"", "Deny", "NoOpinion", "NoOpinion", "Sometimes"}[pick(5)]
	size := 1 + pick(4)
	if pick(12) == 0 {
		size = 127 + pick(4)
	}
	for i := range size {
		c := cond(fmt.Sprint("c", i), []reviewv1.ConditionEffect{"Allow", "Deny", "NoOpinion"}[pick(3)], []string{expr.TypeCEL, opaque}[pick(2)],
			[]string{"true", "false", "1/0 == 1"}[pick(3)])
		if size < 10 {
			switch pick(40) {
			case 0:
				c.ID = "not a key"
			case 1:
				c.ID = "example.com/c0"
			case 2:
				c.Effect = "Maybe"
			case 3:
				c.Type = "no type"
			case 4:
				c.Description = strings.Repeat("d", 1024+pick(2))
			case 5:
				c.Condition = "true" + strings.Repeat(" ", 10236+pick(2))
			}
		}
		set.Conditions = append(set.Conditions, c)
	}
	return set
}

// oneStep is what a set comes to, without two steps and without a server. A malformed one fails closed.
func oneStep(set *reviewv1.SubjectAccessReviewConditionSet) string {
	denies, worst := canDeny(set), map[reviewv1.ConditionEffect]int{}
	if reviewserver.Check(set) != nil {
		return map[bool]string{true: "Deny", false: "NoOpinion"}[denies]
	}
	for _, c := range set.Conditions {
		worst[c.Effect] = max(worst[c.Effect], map[string]int{"false": 0, "1/0 == 1": 1, "true": 2}[strings.TrimSpace(c.Condition)])
	}
	switch {
	case worst["Deny"] == 2, worst["Deny"] == 1 && set.FailureMode != reviewv1.FailureModeNoOpinion:
		return "Deny"
	case worst["Deny"] == 0 && worst["NoOpinion"] == 0 && worst["Allow"] == 2:
		return "Allow"
	}
	return "NoOpinion"
}

// servedAsMeant: what an author says with the package is what the server enforces.
func servedAsMeant(t *testing.T, w *Webhook, a *author, pick func(int) int, seen map[string]int) int {
	t.Helper()
	for range 10 {
		a.set = drawSet(pick)
		d := w.ConditionsAwareAuthorize(t.Context(), create())
		got := name(d)
		if d.IsConditionsMap() {
			decision, _, _ := w.EvaluateConditions(t.Context(), d, createOf("dev"))
			got = finals[decision]
		}
		want := oneStep(&a.set)
		if got != want {
			t.Fatalf("got %s, want %s for %.2000s", got, want, strings.ReplaceAll(fmt.Sprintf("%+v", a.set), "  ", ""))
		}
		seen[got]++
	}
	return 10
}

func servedBy(t testing.TB, a *author) *Webhook {
	t.Helper()
	compiler, err := compilerOnce()
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(reviewserver.Handler(a))
	t.Cleanup(listener.Close)
	at := &rest.Config{Host: listener.URL, QPS: -1}
	w, err := New(Config{Name: "hook", Reviews: at, Conditions: at, Version: "v1", Backoff: wait.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 2},
		Compiler: authorizationcel.NewDefaultCompiler(), CEL: authorize.NewCELConditions(compiler)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// CA-27: for every set, well-formed or not.
func TestServedAsMeant(t *testing.T) {
	a, seen := &author{}, map[string]int{}
	w := servedBy(t, a)
	law.Rounds(t, 30, func(seed int64) int {
		return servedAsMeant(t, w, a, rand.New(rand.NewPCG(uint64(seed), 27)).IntN, seen)
	})
	for _, d := range []string{"Allow", "Deny", "NoOpinion"} {
		if seen[d] < 10 {
			law.TooFew(t, "%v: too few of %s to prove anything", seen, d)
		}
	}
}

func FuzzServedAsMeant(f *testing.F) {
	a := &author{}
	w := servedBy(f, a)
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { servedAsMeant(t, w, a, pick, map[string]int{}) })
}

// CA-27: the limits that the package knows are those of the server.
func TestLimitsAgree(t *testing.T) {
	if reviewserver.MaxConditions != authorizer.MaxConditionsPerMap || reviewserver.MaxText != expr.MaxLength || reviewserver.MaxDescription != expr.MaxDescription || reviewserver.TypeCEL != expr.TypeCEL {
		t.Error("reviewserver has other limits than the server")
	}
}

type warnings []string

func (w *warnings) AddWarning(agent, text string) { *w = append(*w, agent+": "+text) }

// CA-27: warnings and audit annotations of a conditions endpoint are passed on, within bounds and under its name.
func TestWarningsAndAnnotations(t *testing.T) {
	for _, tc := range []struct {
		name, response        string
		warnings, annotations int
	}{
		{"some", `{"allowed":true,"warnings":["look out"],"auditAnnotations":{"rule":"r"}}`, 1, 1},
		{"too long", `{"allowed":true,"warnings":["` + strings.Repeat("w", 257) + `"],"auditAnnotations":{"rule":"` + strings.Repeat("v", 1025) + `"}}`, 0, 0},
		{"not a key", `{"allowed":true,"auditAnnotations":{"a b":"v","authorization.k8s.io/decision":"v"}}`, 0, 0},
		{"too many", `{"allowed":true,"warnings":["1","2","3","4","5","6","7","8","9"],"auditAnnotations":{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":""}}`, 8, 8},
		{"of a lie", `{"denied":true,"warnings":["look out"],"auditAnnotations":{"rule":"r"}}`, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.answer(chainOf("", cond("a", reviewv1.EffectAllow, opaque, "dev")))
			f.resolve(tc.response)
			var said warnings
			ctx := warning.WithWarningRecorder(audit.WithAuditContext(t.Context()), &said)
			if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
				t.Fatal(err)
			}
			_, _, _ = f.EvaluateConditions(ctx, f.ConditionsAwareAuthorize(ctx, create()), createOf("dev"))
			annotations := audit.AuditContextFrom(ctx).GetEventAnnotations()
			if len(said) != tc.warnings || len(annotations) != tc.annotations {
				t.Errorf("got %q and %v", said, annotations)
			}
			for key := range annotations {
				if !strings.HasPrefix(key, "hook/") {
					t.Errorf("%s is not under the name of the authorizer", key)
				}
			}
		})
	}
}

// operated is what admission knows, of another operation.
type operated struct {
	authorizer.ConditionsData
	operation authorizer.AdmissionOperation
}

func (o operated) GetOperation() authorizer.AdmissionOperation { return o.operation }

// CA-27, NI-1: what is not found for its caller is not told by a warning of the endpoint.
func TestWarningsTellOfWritesOnly(t *testing.T) {
	for operation, want := range map[authorizer.AdmissionOperation]int{"CREATE": 1, "UPDATE": 1, "DELETE": 1, "GET": 0, "CONNECT": 0} {
		f := newFixture(t)
		f.answer(chainOf("", cond("a", reviewv1.EffectAllow, opaque, "dev")))
		f.resolve(`{"allowed":false,"warnings":["it is there"]}`)
		var said warnings
		ctx := warning.WithWarningRecorder(t.Context(), &said)
		_, _, _ = f.EvaluateConditions(ctx, f.ConditionsAwareAuthorize(ctx, create()), operated{createOf("dev"), operation})
		if len(said) != want {
			t.Errorf("%s: got %q", operation, said)
		}
	}
}

// CA-27: a deny that is not explained is not called a condition that was not met.
func TestDenyWithoutReason(t *testing.T) {
	f := newFixture(t)
	f.answer(chainOf("", cond("d", reviewv1.EffectDeny, opaque, "x"), cond("a", reviewv1.EffectAllow, opaque, "dev")))
	f.resolve(`{"denied":true}`)
	decision, reason, err := f.EvaluateConditions(t.Context(), f.ConditionsAwareAuthorize(t.Context(), create()), createOf("dev"))
	if decision != authorizer.DecisionDeny || reason != reasonless || err != nil {
		t.Errorf("got %s, %q, %v", finals[decision], reason, err)
	}
}
