package etcdbackup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/platform/localetcd"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/policycodec"
)

// Checked is what `proviso backup check` found.
type Checked struct {
	// Objects is how many objects of Proviso's own kinds were read.
	Objects int `json:"objects"`
	// Kinds is how many there are of each.
	Kinds map[string]int `json:"kinds"`
	// NotUnderstood are those that this release would quarantine.
	NotUnderstood []NotUnderstood `json:"notUnderstood"`
	// Encrypted is how many were not looked at.
	Encrypted int `json:"encrypted"`
}

// NotUnderstood is an object with what is unknown about it.
type NotUnderstood struct {
	Resource  string   `json:"resource"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Problems  []string `json:"problems"`
}

func newCheck(streams genericiooptions.IOStreams) *cobra.Command {
	dir, prefix, format := "proviso-data", "", "table"
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Find stored policy that this release cannot read, before it serves it",
		Long: `Find stored policy that this release cannot read, before it serves it.

Before an upgrade or a downgrade, run this command with the new release. It reads every stored object of policy.proviso.dev
and auditregistration.k8s.io as the server would, from a backup or, without FILE, from the data directory. The command fails
if an object cannot be read. A server quarantines such objects: their allow rules grant nothing, and their deny rules deny
without their condition.`,
		Example: `  # Check the data of the running old release with the new one
  ./new/proviso backup check --data-dir proviso-data

  # A backup, for example one of etcdctl
  proviso backup check backup.db`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "table" && format != "json" {
				return fmt.Errorf("-o %s is not known; use table or json", format)
			}
			file := ""
			if len(args) == 1 {
				file = args[0]
			}
			found, err := check(cmd.Context(), dir, file, prefix)
			if err != nil {
				return err
			}
			if err := found.print(streams, format); err != nil {
				return err
			}
			if n := len(found.NotUnderstood); n > 0 {
				return fmt.Errorf("this release cannot read %d of %d stored objects: change or delete them with the release that wrote them, or use a newer one", n, found.Objects)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "The data directory of the server, or the directory of the sidecar, if no FILE is given.")
	cmd.Flags().StringVar(&prefix, "etcd-prefix", prefix, "Prefix of the etcd keys of all objects. Default: every one below which Proviso stores policy: /registry for a server, /proviso for a sidecar.")
	cmd.Flags().StringVarP(&format, "output", "o", format, "table or json.")
	return cmd
}

// check looks at a backup. Without one, it makes one for the time being: the server may be running.
func check(ctx context.Context, dir, file, prefix string) (*Checked, error) {
	if file == "" {
		temporary, err := os.MkdirTemp("", "proviso-check-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(temporary) }() // nobody else can read what is in it
		file = filepath.Join(temporary, "backup.db")
		if _, err := save(ctx, dir, file); err != nil {
			return nil, err
		}
	} else if _, err := localetcd.Inspect(file); err != nil {
		return nil, err
	}
	values, err := localetcd.Stored(file, func(key string) bool { _, ours := prefixOf(key); return ours })
	if err != nil {
		return nil, err
	}
	prefix = strings.TrimSuffix(prefix, "/")
	elsewhere := map[string]bool{}
	found := &Checked{Kinds: map[string]int{}, NotUnderstood: []NotUnderstood{}}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		of, _ := prefixOf(key)
		if prefix != "" && of != prefix {
			elsewhere[of] = true
			continue
		}
		stored, ok := policycodec.Understand(of, key, values[key])
		if !ok {
			continue
		}
		found.Objects++
		found.Kinds[stored.Resource]++
		switch {
		case stored.Encrypted:
			found.Encrypted++
		case len(stored.Problems) > 0:
			found.NotUnderstood = append(found.NotUnderstood, NotUnderstood{stored.Resource, stored.Namespace, stored.Name, stored.Problems})
		}
	}
	if found.Objects == 0 && len(elsewhere) > 0 {
		return nil, fmt.Errorf("--etcd-prefix %s: no policy is stored below it, but below %s; leave the flag away to check all of it", prefix, strings.Join(slices.Sorted(maps.Keys(elsewhere)), ", "))
	}
	return found, nil
}

// prefixOf is what stands in front of group and resource in the key of an object of ours; false for other keys.
func prefixOf(key string) (prefix string, ours bool) {
	for of := range storedKinds {
		if prefix, _, ours = strings.Cut(key, "/"+of+"/"); ours {
			return prefix, true
		}
	}
	return "", false
}

var storedKinds = policycodec.StoredKinds()

func (c *Checked) print(streams genericiooptions.IOStreams, format string) error {
	if format == "json" {
		return json.NewEncoder(streams.Out).Encode(c)
	}
	for _, o := range c.NotUnderstood {
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + name
		}
		terminal.Fprintf(streams.Out, "%s %s: %s\n", o.Resource, name, strings.Join(o.Problems, "; "))
	}
	if c.Encrypted > 0 {
		terminal.Fprintf(streams.Out, "%d objects are encrypted and were not checked; if the server cannot read them, /readyz names them\n", c.Encrypted)
	}
	terminal.Fprintf(streams.Out, "%d objects of Proviso's kinds, %d of them unreadable\n", c.Objects, len(c.NotUnderstood))
	return nil
}
