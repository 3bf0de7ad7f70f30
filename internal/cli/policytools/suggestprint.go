package policytools

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/observed"
	"proviso.dev/proviso/internal/platform/terminal"
)

// printSuggestion writes the objects, with what is proven of them.
func printSuggestion(out io.Writer, in suggest.Input, r *suggest.Result, d *observed.Doing) error {
	var b strings.Builder
	who := offline.SubjectOf(in.Subject)
	comment := func(format string, args ...any) { terminal.Fprintf(&b, "# %s\n", inLine(fmt.Sprintf(format, args...))) }
	comment("The least rights that cover the requests of %s: %d requests, %d different ones.", who, d.Requests(), len(in.Uses))
	if len(r.Refused) > 0 {
		comment("The policy does not allow %d of them for good: another authorizer, a role binding that ends, or another group of the user allowed them: %s.", len(r.Refused), sample(r.Refused))
	}
	if r.Stays > 0 {
		comment("All users may make %d of them: no grant is needed.", r.Stays)
	}
	switch {
	case r.Allowed == r.Stays && len(r.Parts) == 0:
		comment("There is nothing to suggest.")
	default:
		comment("Proven: %d different requests are decided as before; the suggestion grants nothing new.", r.Allowed-len(r.HandsOut))
		less := 0.0
		if r.Before > 0 {
			less = 100 * float64(r.Before-r.After) / float64(r.Before)
		}
		comment("Today: %d rights (verbs × resources × namespaces). With the suggestion: %d, which is %.1f%% less.", r.Before, r.After, less)
	}
	if slices.Contains(in.Who.GetGroups(), user.SystemPrivilegedGroup) {
		comment("%s is in the group %s, which may do everything: the suggestion replaces that.", who, user.SystemPrivilegedGroup)
	}
	if len(r.Fields) > 0 {
		comment("Field permissions replace the right to write whole objects: %s.", listed(r.Fields))
	}
	if crowded := suggest.Crowded(in.Uses, in.MaxNames); r.Wheres > 0 {
		comment("%d rights select objects by a where instead of many names: it matches all objects in the log, and not most others.", r.Wheres)
	} else if len(crowded) > 0 && len(in.Live) == 0 {
		comment("The log has more than %d names of %s: use --kubeconfig or --live to find a label or field that distinguishes them.", in.MaxNames, placed(crowded))
	}
	for _, ref := range r.Replaced {
		comment("The suggestion replaces %s: remove %s from it.", ref, who)
	}
	for _, l := range r.Lost {
		where := "for the whole cluster"
		switch l.Namespace {
		case suggest.AnyOther:
			where = "in every other namespace"
		case "":
		default:
			where = "in " + l.Namespace
		}
		comment("It removes, %s: %s of %s.", where, strings.Join(l.Verbs, ", "), listed(l.Resources))
	}
	for _, ref := range r.Kept {
		comment("Keep %s: its role denies something or asks who the caller is, or the binding ends by itself.", ref)
	}
	for _, ref := range r.Guarding {
		comment("Keep %s: members of its role may set protected attributes.", ref)
	}
	if len(r.HandsOut) > 0 {
		comment("Not proven: %d different requests grant rights to others. This requires that %s has these rights, or the verb bind or escalate: %s. Keep the bindings that grant them.",
			len(r.HandsOut), who, sample(r.HandsOut))
	}
	for _, namespace := range slices.Sorted(maps.Keys(in.Objects(r.Parts).Policy)) {
		if !in.IsOpen(namespace) {
			comment("Open the namespace for roles of Policy first: proviso policy open %s", namespace)
		}
	}
	objects, err := suggested(in, r)
	if err != nil {
		return err
	}
	for _, o := range objects {
		text, err := terminal.YAML(o)
		if err != nil {
			return err
		}
		terminal.Fprintf(&b, "---\n%s", text)
	}
	if len(objects) == 0 {
		b.WriteString("---\n")
	}
	_, err = io.WriteString(out, b.String())
	return err
}

// inLine keeps names of others from ending a comment: what follows it would be applied.
func inLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// placed names the places.
func placed(all []suggest.Place) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, strings.TrimSuffix(p.Resource+"."+p.Group, ".")+strings.TrimSuffix(" in "+p.Namespace, " in "))
	}
	return listed(texts)
}

// listed joins the first texts.
func listed(all []string) string {
	texts := slices.Clone(all[:min(len(all), 3)])
	if more := len(all) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// sample names the first ones.
func sample(uses []suggest.Use) string {
	var texts []string
	for _, u := range uses {
		texts = append(texts, u.String())
	}
	return listed(texts)
}

// suggested are the objects as text, namespace by namespace.
func suggested(in suggest.Input, r *suggest.Result) (texts [][]byte, err error) {
	objects := in.Objects(r.Parts)
	add := func(kind, version string, object any) {
		if err != nil {
			return
		}
		var content map[string]any
		if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
			return
		}
		content["apiVersion"], content["kind"] = version, kind
		delete(content, "status")
		if meta, ok := content["metadata"].(map[string]any); ok {
			delete(meta, "creationTimestamp")
		}
		var text []byte
		if text, err = yaml.Marshal(content); err == nil {
			texts = append(texts, text)
		}
	}
	const rbacVersion = "rbac.authorization.k8s.io/v1"
	for i, o := range objects.ClusterRoles {
		add("ClusterRole", rbacVersion, o)
		add("ClusterRoleBinding", rbacVersion, objects.ClusterRoleBindings[i])
	}
	for i, o := range objects.Roles {
		add("Role", rbacVersion, o)
		add("RoleBinding", rbacVersion, objects.RoleBindings[i])
	}
	for _, namespace := range slices.Sorted(maps.Keys(objects.Policy)) {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: in.Name}
		add("Role", authz.SchemeGroupVersion.String(), &authz.Role{ObjectMeta: meta, Rules: objects.Policy[namespace]})
		binding := &authz.RoleBinding{ObjectMeta: meta, RoleRef: authz.RoleRef{Namespace: namespace, Name: in.Name}}
		if in.Subject.Group {
			binding.GroupNames = []string{in.Subject.Name}
		} else {
			binding.UserNames = []string{in.Subject.Name}
		}
		add("RoleBinding", authz.SchemeGroupVersion.String(), binding)
	}
	return texts, err
}
