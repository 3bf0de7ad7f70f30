package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/platform/terminal"
)

// right is one line of `can-i --list`.
type right struct {
	Resource        string   `json:"resource,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
	ResourceNames   []string `json:"resourceNames,omitempty"`
	Verbs           []string `json:"verbs"`
	// Condition is empty for what is always allowed.
	Condition string `json:"condition,omitempty"`
	// Protected are attributes that may not be set, as one text.
	Protected string `json:"protected,omitempty"`
}

// list prints what the caller can do in a namespace. Rules that allow without a condition come from one review. If deny
// rules, negations or conditions apply, that review cannot say what is left of them: then every served resource and
// verb is asked about.
func (o *CanIOptions) list(ctx context.Context) error {
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	review := &authorizationv1.SelfSubjectRulesReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectRulesReview"},
		Spec:     authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}
	if err := o.post(ctx, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review); err != nil {
		return err
	}
	rights := rightsOf(review.Status, !review.Status.Incomplete)
	if review.Status.Incomplete {
		swept, err := o.sweep(ctx, namespace)
		if err != nil {
			return err
		}
		rights = append(swept, rights...)
	}
	for problem := range strings.Lines(review.Status.EvaluationError) {
		terminal.Fprintf(o.ErrOut, "Warning: %s\n", strings.TrimSpace(problem))
	}
	switch o.format {
	case "table":
		return rightsTable(o.Out, rights, !o.NoHeaders)
	case "name":
		return rightsNames(o.Out, rights)
	}
	return o.print(o.Out, map[string]any{"namespace": namespace, "rights": rights})
}

// rightsOf turns a review into lines. Without everything, only what a sweep cannot find is taken: single names and
// paths.
func rightsOf(s authorizationv1.SubjectRulesReviewStatus, everything bool) []right {
	var rights []right
	for _, r := range s.ResourceRules {
		if !everything && len(r.ResourceNames) == 0 {
			continue
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				rights = append(rights, right{Resource: groupResource(group, resource), ResourceNames: r.ResourceNames, Verbs: r.Verbs})
			}
		}
	}
	rights = merged(rights)
	for _, r := range s.NonResourceRules {
		rights = append(rights, right{NonResourceURLs: r.NonResourceURLs, Verbs: r.Verbs})
	}
	return rights
}

func groupResource(group, resource string) string {
	main, sub, _ := strings.Cut(resource, "/")
	if group != "" {
		main += "." + group
	}
	if sub != "" {
		main += "/" + sub
	}
	return main
}

// merged puts lines together that differ in their verbs only.
func merged(rights []right) []right {
	type key struct{ resource, names, condition string }
	at := map[key]int{}
	var out []right
	for _, r := range rights {
		k := key{r.Resource, strings.Join(r.ResourceNames, ","), r.Condition}
		i, known := at[k]
		if !known {
			at[k] = len(out)
			r.Verbs = slices.Clone(r.Verbs)
			out = append(out, r)
			continue
		}
		for _, verb := range r.Verbs {
			if !slices.Contains(out[i].Verbs, verb) {
				out[i].Verbs = append(out[i].Verbs, verb)
			}
		}
	}
	return out
}

// sweepers is how many questions are asked at a time.
const sweepers = 8

// sweep asks about every verb of every served resource.
func (o *CanIOptions) sweep(ctx context.Context, namespace string) ([]right, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	rc, err := connectTo(config)
	if err != nil {
		return nil, err
	}
	discovery, err := o.config.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	lists, err := discovery.ServerPreferredResources()
	if err != nil && len(lists) == 0 {
		return nil, err
	}
	var asked []authorizationv1.ResourceAttributes
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		all, err := discovery.ServerResourcesForGroupVersion(list.GroupVersion) // with subresources, which the preferred ones lack
		if err != nil {
			continue
		}
		for _, r := range all.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			in := namespace
			if !r.Namespaced {
				in = ""
			}
			for _, verb := range r.Verbs {
				one := authorizationv1.ResourceAttributes{Namespace: in, Verb: verb, Group: version.Group, Version: version.Version, Resource: resource, Subresource: sub}
				asked = append(asked, one)
				if (questions.Target{Verb: verb, Resource: resource, Subresource: sub}).IsNamespace() {
					one.Namespace, one.Name = namespace, namespace
					asked = append(asked, one)
				}
			}
		}
	}
	asked = slices.Compact(asked) // a group can be listed twice
	found := make([]right, len(asked))
	errs := make(chan error, 1)
	var group sync.WaitGroup
	next := make(chan int)
	for range sweepers {
		group.Go(func() {
			for i := range next {
				answer, err := askRaw(ctx, rc, asked[i])
				if err != nil {
					select {
					case errs <- err:
					default:
					}
					continue
				}
				found[i] = *answer
			}
		})
	}
	for i := range asked {
		next <- i
	}
	close(next)
	group.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
	}
	for i := range found { // of a Namespace object that is like all others nothing is said
		if i > 0 && asked[i].Name != "" && len(found[i-1].Verbs) > 0 && found[i-1].Condition == found[i].Condition {
			found[i] = right{}
		}
	}
	if err := o.single(ctx, rc, asked, found); err != nil {
		return nil, err
	}
	return merged(slices.DeleteFunc(found, func(r right) bool { return len(r.Verbs) == 0 })), nil
}

// single finds, where a write of the whole object is not allowed, the rights to single fields (FP-21).
func (o *CanIOptions) single(ctx context.Context, rc *rest.RESTClient, asked []authorizationv1.ResourceAttributes, found []right) error {
	held := map[authorizationv1.ResourceAttributes]right{}
	for i, a := range asked {
		t := target{resource: schema.GroupVersionResource{Group: a.Group, Version: a.Version, Resource: a.Resource}, subresource: a.Subresource}
		if len(found[i].Verbs) > 0 || !o.writesFields(a.Verb, t) {
			continue
		}
		question := a
		question.Verb = fieldperm.Verb
		answer, known := held[question]
		if !known {
			one, err := askRaw(ctx, rc, question)
			if err != nil {
				return err
			}
			answer, held[question] = *one, *one
		}
		if len(answer.Verbs) > 0 {
			answer.Verbs, answer.Condition = []string{a.Verb}, "only fields that your field permissions cover"
			found[i] = answer
		}
	}
	return nil
}

// askRaw asks one question and turns the answer into a line, which is empty if the answer is no.
func askRaw(ctx context.Context, rc *rest.RESTClient, attrs authorizationv1.ResourceAttributes) (*right, error) {
	review := &reviewv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}}
	review.Spec.ResourceAttributes = &attrs
	review.Spec.ConditionalAuthorization = &reviewv1.ConditionalAuthorization{Mode: "HumanReadable"}
	if err := askReview(ctx, rc, review); err != nil {
		return nil, err
	}
	r := &right{Resource: groupResource(attrs.Group, attrs.Resource), Verbs: []string{attrs.Verb}}
	if attrs.Subresource != "" {
		r.Resource += "/" + attrs.Subresource
	}
	if attrs.Name != "" {
		r.ResourceNames = []string{attrs.Name}
	}
	switch exitCode(review.Status) {
	case 0:
	case codeDepends:
		var parts []string
		for _, e := range review.Status.ConditionsChain {
			if names := protectedNames(e); names != "" {
				r.Protected = names
			}
		}
		for _, c := range clausesOf(review.Status) {
			if r.Protected != "" && strings.Contains(c.note, "("+links.ProtectedAttributes+")") {
				parts = append(parts, withoutProtected) // what that is, is said once
				continue
			}
			text := c.words + " " + c.text
			if c.text == "" {
				continue // "otherwise allowed" goes without saying
			}
			if strings.HasPrefix(c.text, "the following") {
				text = c.words + " " + c.note
			}
			parts = append(parts, text)
		}
		r.Condition = strings.Join(parts, "; ")
	default:
		return &right{}, nil
	}
	return r, nil
}

// withoutProtected is the condition of what is allowed but for protected attributes.
const withoutProtected = "without protected attributes"

// protectedIn are the protected attributes of all lines.
func protectedIn(rights []right) (names []string) {
	for _, r := range rights {
		if r.Protected != "" && !slices.Contains(names, r.Protected) {
			names = append(names, r.Protected)
		}
	}
	return names
}

func rightsTable(out io.Writer, rights []right, headers bool) error {
	fit := terminal.Fit(out, cutLines("yaml"), nil)
	w := tabwriter.NewWriter(fit, 0, 4, 3, ' ', 0)
	if headers {
		terminal.Fprintf(w, "Resources\tNon-Resource URLs\tResource Names\tVerbs\tCondition\n")
	}
	for _, r := range rights {
		terminal.Fprintf(w, "%s\t%v\t%v\t%v\t%s\n", r.Resource, r.NonResourceURLs, r.ResourceNames, r.Verbs, r.Condition)
	}
	if err := errors.Join(w.Flush(), fit.Close()); err != nil {
		return err
	}
	if names := protectedIn(rights); len(names) > 0 && headers {
		terminal.Fprintf(out, "\nProtected attributes: %s.\n", strings.Join(names, "; "))
	}
	return nil
}

func rightsNames(out io.Writer, rights []right) error {
	var names []string
	for _, r := range rights {
		if r.Resource != "" {
			names = append(names, r.Resource)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, err := terminal.Fprintln(out, name); err != nil {
			return err
		}
	}
	return nil
}
