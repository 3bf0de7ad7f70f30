package policychange

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/snapshot"
)

// besides says what else decides about access and is neither rules nor guards: grants that were asked for, revoked
// tokens, sinks that access rules wait for, and admission that is not ours.
func besides(before, after *offline.Host, now time.Time) (lines []string, err error) {
	for _, find := range []func() ([]string, error){
		func() ([]string, error) { return requestLines(before, after, now) },
		func() ([]string, error) { return revocationLines(before, after) },
		func() ([]string, error) { return sinkLines(before, after) },
		func() ([]string, error) { return foreignLines(before, after), nil },
	} {
		more, err := find()
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// requestLines say what becomes of access requests that are not over. Who is granted something may do it beside the
// rules that are compared.
func requestLines(before, after *offline.Host, now time.Time) (lines []string, err error) {
	changes, err := offline.ChangedObjects(before, after, snapshot.AccessRequests, func(a, b *accessv1alpha1.AccessRequest) bool {
		return equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Status, b.Status) && a.UID == b.UID
	})
	over := func(r *accessv1alpha1.AccessRequest) bool {
		// A manifest has no time of creation: it asks from the moment when it is applied.
		return r == nil || !r.CreationTimestamp.IsZero() && access.IsOver(access.StatusAt(r, now).State)
	}
	for _, c := range changes {
		switch {
		case over(c.Before) && over(c.After):
		case over(c.After):
			lines = append(lines, fmt.Sprintf("AccessRequest %s ends: %s may lose what it grants by AccessRule %s", c.Name, requester(c.Before), c.Before.Spec.RuleRef.Name))
		case over(c.Before):
			lines = append(lines, fmt.Sprintf("AccessRequest %s is new: %s may get what it asks for by AccessRule %s", c.Name, requester(c.After), c.After.Spec.RuleRef.Name))
		default:
			lines = append(lines, fmt.Sprintf("AccessRequest %s changes: what %s gets by AccessRule %s may change", c.Name, requester(c.After), c.After.Spec.RuleRef.Name))
		}
	}
	return lines, err
}

func requester(r *accessv1alpha1.AccessRequest) string {
	if name := r.Spec.Requester.Username; name != "" {
		return name
	}
	return "the user who creates it" // the server sets the requester
}

func revocationLines(before, after *offline.Host) (lines []string, err error) {
	changes, err := offline.ChangedObjects(before, after, snapshot.TokenRevocations, func(a, b *accessv1alpha1.TokenRevocation) bool {
		return equality.Semantic.DeepEqual(a.Spec, b.Spec)
	})
	for _, c := range changes {
		switch {
		case c.Before == nil:
			lines = append(lines, fmt.Sprintf("TokenRevocation %s is new: the narrowed tokens that it revokes no longer count", c.Name))
		case c.After == nil:
			lines = append(lines, fmt.Sprintf("TokenRevocation %s is gone: the narrowed tokens that it revoked count again until they expire", c.Name))
		default:
			lines = append(lines, fmt.Sprintf("TokenRevocation %s changes: which narrowed tokens count may change", c.Name))
		}
	}
	return lines, err
}

// sinkLines say which requests for access no longer become active because a sink is gone, and which do because it is
// there. Sinks decide nothing else.
func sinkLines(before, after *offline.Host) (lines []string, err error) {
	changes, err := offline.ChangedObjects(before, after, snapshot.AuditSinks, func(_, _ *auditv1alpha1.AuditSink) bool { return true })
	if err != nil {
		return nil, err
	}
	rules, err := after.Files().Objects(snapshot.AccessRules)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		for _, r := range snapshot.Of[*accessv1alpha1.AccessRule](rules) {
			switch {
			case !slices.Contains(r.Spec.AuditSinks, c.Name):
			case c.After == nil:
				lines = append(lines, fmt.Sprintf("AuditSink %s is gone: requests of %s by AccessRule %s wait for it, and may be denied", c.Name, askers(r), r.Name))
			default:
				lines = append(lines, fmt.Sprintf("AuditSink %s is new: requests of %s by AccessRule %s wait for it, and may become active", c.Name, askers(r), r.Name))
			}
		}
	}
	return lines, nil
}

// foreign are the API groups of what admits, refuses or serves requests beside our own rules.
var foreign = map[string]string{
	"admissionregistration.k8s.io": "which writes admission refuses or changes",
	"apiregistration.k8s.io":       "which server answers requests, and whether conditions hold there",
}

// foreignLines say which of the files' objects are of kinds that no rule is in, and that decide about requests.
func foreignLines(before, after *offline.Host) (lines []string) {
	sides := [2]map[string]*unstructured.Unstructured{{}, {}}
	for i, h := range []*offline.Host{before, after} {
		for _, o := range h.Files().Others {
			if foreign[o.GroupVersionKind().Group] != "" {
				sides[i][manifests.Key(o)] = o
			}
		}
	}
	for key, was := range sides[0] {
		if is := sides[1][key]; is == nil || !same(was, is) {
			lines = append(lines, foreignLine(was, key))
		}
	}
	for key, is := range sides[1] {
		if sides[0][key] == nil {
			lines = append(lines, foreignLine(is, key))
		}
	}
	return lines
}

func foreignLine(o *unstructured.Unstructured, key string) string {
	_, name, _ := strings.Cut(key, " ")
	return fmt.Sprintf("%s %s decides %s, which is not compared", o.GetKind(), name, foreign[o.GroupVersionKind().Group])
}
