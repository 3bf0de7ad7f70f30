package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/platform/terminal"
)

// PermissionsOptions are the flags of `proviso permissions`.
type PermissionsOptions struct {
	*client

	genericiooptions.IOStreams
}

// NewPermissionsCommand returns `proviso permissions`.
func NewPermissionsCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &PermissionsOptions{client: newClient(streams.ErrOut), IOStreams: streams}
	o.formats = []string{"table", "wide", "name", "json", "yaml"}
	cmd := &cobra.Command{
		Use:   "permissions [RESOURCE]",
		Short: "List the field permissions: what to grant, and which fields it covers",
		Long: `List the field permissions of the server: those that are shipped, those of FieldPermission objects and those in the schemas
of custom resource definitions. With a resource, list those on its own fields, from the most general to the most specific.

GRANT is the verb to grant on the resource, together with the verb "granular" for subjects that may not write the whole object.
Replace text in angle brackets: granular:label(<prefix>) is granted as granular:label(example.com). The right to write the
object does not include an EXCLUSIVE field: writing it requires the permission of the field. SOURCE is who declares it.

You need the right to list permissions.authorization.proviso.dev, which cluster admins have.`,
		Example: `  # Every permission with the fields it guards
  proviso permissions

  # What can be given on deployments, their pod templates included?
  proviso permissions deploy

  # When is each one exclusive?
  proviso permissions deployments.apps -o wide

  # Give it: the labels of example.com on deployments, and nothing else
  kubectl create clusterrole labeller --verb=get,granular,'granular:label(example.com)' --resource=deployments.apps`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("too many arguments: name one resource, such as: proviso permissions %s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd)
	cmd.ValidArgsFunction = o.completeResources
	return cmd
}

// Run asks and prints.
func (o *PermissionsOptions) Run(ctx context.Context, args []string) error {
	if err := o.validate(); err != nil {
		return err
	}
	query := map[string]string{}
	if len(args) > 0 {
		t, err := o.parseTarget(args, "")
		if err != nil {
			return err
		}
		if t.name != "" || t.path != "" || t.resource.Resource == all {
			return fmt.Errorf("%s: give a resource without a name or a subresource; a permission covers all objects of a resource", args[0])
		}
		query["fieldSelector"] = "resource=" + t.qualified()
	}
	list := &authz.PermissionList{}
	err := o.get(ctx, "/apis/"+authz.SchemeGroupVersion.String()+"/permissions", query, list)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the server has no field permissions: it is not Proviso, or its feature gate FieldPermissions is off")
	}
	if err != nil {
		return err
	}
	switch o.format {
	case "table", "wide":
		return permissionsTable(o.Out, permissionRows(list, len(args) > 0), o.format == "wide")
	case "name":
		for _, p := range list.Items {
			if _, err := terminal.Fprintf(o.Out, "permission.%s/%s\n", authz.GroupName, p.Name); err != nil {
				return err
			}
		}
		return nil
	}
	return o.print(o.Out, list)
}

// permissionRows is a row for each field: by permission, or for one resource by field, where what is more general comes
// first.
func permissionRows(list *authz.PermissionList, byField bool) []authz.PermissionField {
	var rows []authz.PermissionField
	for _, p := range list.Items {
		rows = append(rows, p.Fields...)
	}
	if byField {
		slices.SortStableFunc(rows, func(a, b authz.PermissionField) int { return cmp.Compare(a.Field, b.Field) })
	}
	return rows
}

func permissionsTable(out io.Writer, rows []authz.PermissionField, wide bool) error {
	header, hint := "GRANT\tRESOURCE\tFIELD\tEXCLUSIVE\tSOURCE", cutLines("wide")
	if wide {
		header, hint = header+"\tEXCLUSIVE WHEN", ""
	}
	return table(out, hint, brokenIsRed, func(w io.Writer) { permissionLines(w, header, rows, wide) })
}

const broken = " (broken)"

func brokenIsRed(line string) terminal.Colour {
	if strings.Contains(line, broken) {
		return terminal.Red
	}
	return terminal.None
}

func permissionLines(w io.Writer, header string, rows []authz.PermissionField, wide bool) {
	terminal.Fprintln(w, terminal.Lines(header))
	for _, f := range rows {
		exclusive := "no"
		switch {
		case f.Exclusive && f.ExclusiveWhen != "":
			exclusive = "sometimes"
		case f.Exclusive:
			exclusive = "yes"
		}
		grant := f.Verb
		if f.Broken {
			grant += broken
		}
		terminal.Fprintf(w, "%s\t%s\t%s\t%s\t%s", grant, f.Resource, f.Field, exclusive, f.Source)
		if wide {
			terminal.Fprintf(w, "\t%s", oneLine(f.ExclusiveWhen))
		}
		terminal.Fprintln(w)
	}
}
