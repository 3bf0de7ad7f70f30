package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/platform/terminal"
)

// output is the flag -o of a command.
type output struct {
	format string
	// formats are the values that it can have; the first is the command's own.
	formats []string
}

func (o *output) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", o.format, "Output: "+o.choice()+".")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) validate() error {
	if slices.Contains(o.formats, o.format) {
		return nil
	}
	return fmt.Errorf("-o %s: want %s", o.format, o.choice())
}

func (o *output) choice() string {
	last := len(o.formats) - 1
	return strings.Join(o.formats[:last], ", ") + " or " + o.formats[last]
}

// print writes an answer as JSON or YAML, without what only the server's bookkeeping needs.
func (o *output) print(out io.Writer, answer any) error {
	data, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err
	}
	withoutManagedFields(tree)
	if o.format == "yaml" {
		if data, err = yaml.Marshal(tree); err != nil {
			return err
		}
		text, err := terminal.YAML(data)
		if err != nil {
			return err
		}
		_, err = terminal.Fprint(out, text)
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false) // conditions are full of < and &&
	encoder.SetIndent("", "  ")
	return encoder.Encode(tree)
}

// cutLines is said below a table whose lines were cut to the width of the terminal.
func cutLines(format string) string {
	return "Lines are cut to the width of the terminal; -o " + format + " shows all of them."
}

// table prints a table that is fitted to the terminal. Without a hint its lines are not cut; colour may be nil.
func table(out io.Writer, hint string, colour func(line string) terminal.Colour, rows func(w io.Writer)) error {
	fit := terminal.Fit(out, hint, colour)
	w := tabwriter.NewWriter(fit, 0, 4, 3, ' ', 0)
	rows(w)
	return errors.Join(w.Flush(), fit.Close())
}

func withoutManagedFields(tree any) {
	object, ok := tree.(map[string]any)
	if !ok {
		return
	}
	if meta, ok := object["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
		if meta["creationTimestamp"] == nil {
			delete(meta, "creationTimestamp")
		}
		if len(meta) == 0 {
			delete(object, "metadata")
		}
	}
	if items, ok := object["items"].([]any); ok {
		for _, item := range items {
			withoutManagedFields(item)
		}
	}
}
