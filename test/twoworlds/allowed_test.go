package twoworlds

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// row is one difference between the worlds that the law allows (NI-1).
type row struct {
	what, why string
	// fields are replaced wherever they are in an answer, headers are not compared, texts are replaced in every string.
	fields, headers []string
	texts           []*regexp.Regexp
	// excuses reports whether the difference between two answers is this one. The worlds may then differ further, so
	// the sequence ends.
	excuses func(c *Case, s Step, a, b *reply) bool
}

// allowed are the differences that the law allows. There are no others: a find is a leak or a mistake of the search.
var allowed = []row{
	{
		what: "uid, resourceVersion, creation times, generated names, IP and port allocation, certificates",
		why:  "they count what happens in the whole cluster, or are random, and tell nothing about an object",
		fields: []string{
			"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime", "startTime",
			"policyRevision", "clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort", "targetPort", // that of kubernetes is where the server listens
		},
		headers: []string{"Date", "Audit-Id", "Content-Length", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid", "Proviso-Policy-Revision"},
		texts: []*regexp.Regexp{
			regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?\b`), // times
			regexp.MustCompile(`made-[a-z0-9]{5}`),                        // generateName
			regexp.MustCompile(`(?s)-----BEGIN.*-----END [A-Z ]+-----`),   // each server has its own CA
			regexp.MustCompile(`\b10\.[0-9]+\.[0-9]+\.[0-9]+\b`),          // cluster IPs
			regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
			regexp.MustCompile(`\b[0-9]{3,}\b`),                     // revisions in messages; codes are compared by themselves
			regexp.MustCompile(`^([0-9]+[dhms]){1,2}$|^<unknown>$`), // ages in tables
		},
		// Each server compacts old revisions every five minutes, at a time of its own. Why is not said to a caller from
		// whom fields are hidden.
		excuses: func(_ *Case, s Step, a, b *reply) bool {
			query, err := url.ParseQuery(s.Query)
			return err == nil && query.Get("resourceVersion") == "1" && eitherSays(a, b, http.StatusGone, "too old", `"Expired"`)
		},
	},
	{
		what:    "403, 404 and 409 on names, for writes (RD-5)",
		why:     "a write has to say whether the name is taken; only whether an object exists may show",
		excuses: tellsOfName,
	},
	{
		what: "a refusal because something denied depends on the object (PO-20)",
		why:  "a deny holds by effect, and says that something depends on the object, never what",
		excuses: func(_ *Case, _ Step, a, b *reply) bool {
			return eitherSays(a, b, http.StatusForbidden, "rules deny you", "a rule denies you", "this would delete", "the garbage collector would delete")
		},
	},
	{
		what: "answers of ResourceQuota, LimitRange and disruption budgets",
		why:  "they count objects whatever the caller may see of these",
		excuses: func(_ *Case, _ Step, a, b *reply) bool {
			return eitherSays(a, b, http.StatusForbidden, "exceeded quota", "failed quota", "per Pod", "per Container") ||
				eitherSays(a, b, http.StatusTooManyRequests, "disruption budget")
		},
	},
	{
		what: "status that controllers write into objects the caller may read",
		why:  "it is about the object; no controller runs in these servers, so nothing is removed for it",
	},
	{
		what:    "that an object with hidden fields has changed (resourceVersion, generation, times in managedFields)",
		why:     "the object is the caller's to see; both worlds write hidden fields equally often, so nothing is removed for it. Who overwrites a value learns whether it was the same, and otherwise it is gone",
		excuses: overwrites,
	},
}

var generations = regexp.MustCompile(`"generation":[0-9]+`)

// overwrites reports whether two answers to a write that stores a guess of the hidden value differ only because one
// world had it already: nothing has changed there.
func overwrites(c *Case, s Step, a, b *reply) bool {
	if c.Change.What != changeHid || s.reads() || strings.Contains(s.Query, "dryRun") || !strings.Contains(s.Body, c.object(c.Change.Ref).Hid) {
		return false
	}
	stored := func(r *reply) string { return generations.ReplaceAllString(r.body, "") }
	return a.code == http.StatusOK && b.code == a.code && a.headers == b.headers && stored(a) == stored(b)
}

// tellsOfName reports whether two answers to a write differ because the object that the worlds differ in exists in one
// of them only.
func tellsOfName(c *Case, s Step, a, b *reply) bool {
	if c.Change.What == changeRequest { // the second world has it
		takes := s.Path == requestsHome && strings.Contains(s.Body, `"name":"`+bobs+`"`) || strings.HasPrefix(s.Path, requestsHome+"/"+bobs)
		return takes && !s.reads() && b.code >= 400 && !strings.Contains(b.headers+b.body, bobsReason)
	}
	ref, _, _ := refOf(s.Path)
	if c.Change.What != changeAbsent || s.reads() || ref.Kind != c.Change.Kind || ref.NS != c.Change.NS {
		return false
	}
	o := c.object(c.Change.Ref)
	if ref.Name == "" && s.Method == http.MethodDelete { // a collection is refused if it holds what may not be deleted
		return a.code >= 400 && !strings.Contains(a.headers+a.body, o.Value) && !strings.Contains(a.headers+a.body, o.Name)
	}
	if named := ref.Name == c.Change.Name || s.Method == http.MethodPost && strings.Contains(s.Body, `"name":"`+c.Change.Name+`"`); !named {
		return false
	}
	// The first world has the object: the caller is refused, whether by 403, by 409 or because the request is wrong for
	// an object that exists, and nothing of the object shows. Where it does not exist, they may create it.
	return a.code >= 400 && !strings.Contains(a.headers+a.body, o.Value)
}

func eitherSays(a, b *reply, code int, texts ...string) bool {
	says := func(r *reply) bool {
		return r.code == code && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(r.body, t) })
	}
	return says(a) || says(b)
}

// excused names the row that allows the difference of two answers.
func excused(c *Case, s Step, a, b *reply) string {
	for _, r := range allowed {
		if r.excuses != nil && r.excuses(c, s, a, b) {
			return r.what
		}
	}
	return ""
}

// replacedFields and skippedHeaders are those of all rows.
var replacedFields, skippedHeaders = func() (fields, headers map[string]bool) {
	fields, headers = map[string]bool{}, map[string]bool{}
	for _, r := range allowed {
		for _, f := range r.fields {
			fields[f] = true
		}
		for _, h := range r.headers {
			headers[h] = true
		}
	}
	return fields, headers
}()

// plain removes what the rows allow from one string.
func plain(s string) string {
	for _, r := range allowed {
		for _, t := range r.texts {
			s = t.ReplaceAllString(s, "…")
		}
	}
	return s
}
