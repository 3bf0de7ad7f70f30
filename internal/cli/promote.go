package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/platform/terminal"
)

// promoteOptions are the flags of `proviso shadow promote`.
type promoteOptions struct {
	*client
	DryRun bool

	genericiooptions.IOStreams
}

func newPromoteCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &promoteOptions{client: newClient(streams.ErrOut), IOStreams: streams}
	o.formats = []string{"table", "json", "yaml"}
	cmd := &cobra.Command{
		Use:   "promote NAME",
		Short: "Enforce a rule that is not enforced yet, after showing its effect",
		Long: `Enforce a rule, protected attribute or field permission, after showing it and what it would have changed so far. NAME is the name that
'proviso shadow' shows. You need the rights to write the enforced rule.

If the object changes in the meantime, nothing is written.`,
		Example: `  # What would be enforced, and may I do that?
  proviso shadow promote role.dev-volumes.0 -n hammer --dry-run

  # Do it
  proviso shadow promote role.dev-volumes.0 -n hammer

  # A cluster-wide protected attribute; it has no namespace
  proviso shadow promote clusterprotectedattribute.tier`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("want the name of one rule, as 'proviso shadow' shows it: proviso shadow promote role.dev-volumes.0 -n hammer")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args[0]) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "Show the rule and check whether you may enforce it, without writing.")
	return cmd
}

// shadowed is the object that a name refers to.
type shadowed struct {
	kind, name string
	// rule is the position in a role.
	rule int
	path string
}

// parseShadow reads a name that `proviso shadow` shows.
func parseShadow(name, namespace string) (s shadowed, err error) {
	kind, rest, ok := strings.Cut(name, ".")
	s = shadowed{kind: kind, name: rest}
	policies := "/apis/" + policyv1alpha1.SchemeGroupVersion.String()
	switch kind {
	case "role":
		dot := strings.LastIndex(rest, ".")
		if dot < 1 {
			break
		}
		if _, err := fmt.Sscanf(rest[dot+1:], "%d", &s.rule); err != nil || s.rule < 0 {
			break
		}
		s.name = rest[:dot]
		s.path = rolesPath(namespace, "roles") + "/" + s.name
		return s, nil
	case "protectedattribute":
		s.path = policies + "/namespaces/" + namespace + "/protectedattributes/" + rest
	case "clusterprotectedattribute", "fieldpermission":
		s.path = policies + "/" + kind + "s/" + rest
	}
	if !ok || rest == "" || s.path == "" {
		return s, fmt.Errorf("%s: want a name as 'proviso shadow' shows it, such as role.dev-volumes.0 or protectedattribute.tier", name)
	}
	return s, nil
}

// Run shows and writes.
func (o *promoteOptions) Run(ctx context.Context, name string) error {
	if err := o.validate(); err != nil {
		return err
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	s, err := parseShadow(name, namespace)
	if err != nil {
		return err
	}
	object := map[string]any{}
	if err := o.get(ctx, s.path, nil, &object); err != nil {
		return err
	}
	rule, err := s.in(object)
	if err != nil {
		return err
	}
	if enforcement, _ := rule["enforcement"].(string); !policyv1alpha1.Enforcement(enforcement).Shadowed() {
		return fmt.Errorf("%s is enforced already", name)
	}
	delete(rule, "enforcement")
	if err := o.show(ctx, name, namespace, rule); err != nil {
		return err
	}
	if err := o.put(ctx, s.path, object, o.DryRun); err != nil {
		return err
	}
	if o.format != "table" {
		return o.print(o.Out, object)
	}
	done := "is enforced"
	if o.DryRun {
		done = "would be enforced (dry run)"
	}
	_, err = terminal.Fprintf(o.Out, "%s %s\n", name, done)
	return err
}

// in finds the part of the object that has the enforcement.
func (s shadowed) in(object map[string]any) (map[string]any, error) {
	switch s.kind {
	case "role":
		rules, _ := object["rules"].([]any)
		if s.rule >= len(rules) {
			return nil, fmt.Errorf("role %q has %d rules, and none at position %d", s.name, len(rules), s.rule)
		}
		rule, ok := rules[s.rule].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("rule %d of role %q cannot be read", s.rule, s.name)
		}
		return rule, nil
	case "fieldpermission":
		spec, ok := object["spec"].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("field permission %q has no spec", s.name)
		}
		return spec, nil
	}
	return object, nil
}

// show prints the rule, and what it would have changed.
func (o *promoteOptions) show(ctx context.Context, name, namespace string, rule map[string]any) error {
	out := o.Out
	if o.format != "table" {
		out = o.ErrOut
	}
	shown := map[string]any{}
	for key, value := range rule {
		switch key {
		case "metadata", "status", "apiVersion", "kind":
		default:
			shown[key] = value
		}
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		return err
	}
	terminal.Fprintf(out, "This will be enforced:\n\n  %s\n\n", terminal.Lines(strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  ")))
	list := &authz.ShadowRuleList{}
	path := shadowPath(namespace)
	if kind, _, _ := strings.Cut(name, "."); kind == "clusterprotectedattribute" || kind == "fieldpermission" {
		path = shadowPath("") // it is in the master namespace, whatever that is called
	}
	err = o.get(ctx, path, map[string]string{"fieldSelector": "metadata.name=" + name}, list)
	switch {
	case apierrors.IsForbidden(err):
		_, err = terminal.Fprintf(out, "Its effect so far is not shown: you need the right to list shadowrules.%s.\n\n", authz.GroupName)
		return err
	case err != nil:
		return noShadows(err)
	case len(list.Items) == 0:
		_, err = terminal.Fprintf(out, "The server has not counted its effect so far.\n\n")
		return err
	}
	s := list.Items[0].Status
	terminal.Fprintf(out, "In %s it applied to %d requests: %d would have been allowed, %d would have been denied, %d are undecided.\n\n",
		duration.HumanDuration(time.Since(s.Since.Time)), s.Applied, s.WouldAllow, s.WouldDeny, s.Undecided)
	if len(s.Flips) == 0 {
		return nil
	}
	if err := flipsTable(out, list.Items[:1], false); err != nil {
		return err
	}
	_, err = terminal.Fprintln(out)
	return err
}

// put writes the object as it was read but for what was changed. The version that was read goes with it.
func (c *client) put(ctx context.Context, path string, object map[string]any, dryRun bool) error {
	rc, err := c.connect()
	if err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	request := rc.Put().AbsPath(path).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Param("fieldManager", "proviso")
	if dryRun {
		request = request.Param("dryRun", "All")
	}
	answer, err := request.Body(body).DoRaw(ctx)
	if err != nil {
		return decodeStatus(answer, err)
	}
	return nil
}
