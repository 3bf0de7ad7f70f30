package policytools

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/source"
)

// origin is where a tool takes the policy from that there is: files, or a server (TR-1).
type origin struct {
	From   []string
	config *genericclioptions.ConfigFlags
	// server are the flags of config that say which server is asked, as whom and how.
	server *pflag.FlagSet
	// keep is what was read before; nil for a command that runs once.
	keep *manifests.Kept
	// within are namespaces whose policy is enough if not all may be read; nil if it has to be all of it. unseen is
	// what was not read then.
	within, unseen []string
}

// addFlags adds --from, and the flags for a server.
func (o *origin) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.From, "from", nil, "Read the current policy from these files or directories (manifests, or the output of proviso dump) instead of the cluster.")
	o.addServer(fs)
}

// addMasterFlag adds --master-namespace. Its former name works, and says so.
func addMasterFlag(fs *pflag.FlagSet, master *string) {
	fs.StringVar(master, "master-namespace", *master, "The namespace whose policy holds everywhere.")
	fs.StringVar(master, "policy-master-namespace", *master, "The former name of --master-namespace.")
	_ = fs.MarkDeprecated("policy-master-namespace", "use --master-namespace")
}

// addServer adds the flags of kubectl that say which server is asked, and as whom, without those that mean something of
// policy in these commands: --namespace, and --user, which names whom a command is about.
func (o *origin) addServer(fs *pflag.FlagSet) {
	o.config = genericclioptions.NewConfigFlags(true)
	namespace := o.config.Namespace
	o.config.Namespace, o.config.AuthInfoName = nil, nil
	o.server = pflag.NewFlagSet("", pflag.ContinueOnError)
	o.config.AddFlags(o.server)
	fs.AddFlagSet(o.server)
	o.config.Namespace = namespace
}

// live reports whether a server is asked.
func (o *origin) live() bool { return len(o.From) == 0 }

// validate checks the flags. With files no server is asked, so a flag that says which, or as whom, would be ignored.
func (o *origin) validate() error {
	if o.live() {
		return nil
	}
	var given []string
	o.server.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			given = append(given, "--"+flag.Name)
		}
	})
	if len(given) > 0 {
		return fmt.Errorf("--from and %s are mutually exclusive: with --from, no server is asked", strings.Join(given, ", "))
	}
	return nil
}

// addNamespace adds --namespace, for what is read if not all may be.
func (o *origin) addNamespace(fs *pflag.FlagSet) {
	fs.StringVarP(o.config.Namespace, "namespace", "n", "", "Namespace to read if you may not read the policy of all namespaces. Default: the namespace of the context.")
}

// some lets a command do with the policy of some namespaces, and of the context's, if not all may be read.
func (o *origin) some(namespaces ...string) {
	if !o.live() {
		return
	}
	if own, _, err := o.config.ToRawKubeConfigLoader().Namespace(); err == nil {
		namespaces = append(slices.Clone(namespaces), own)
	}
	slices.Sort(namespaces)
	o.within = slices.DeleteFunc(slices.Compact(namespaces), func(n string) bool { return n == "" })
}

// unseenText says what was not read; empty if all was.
func (o *origin) unseenText() string {
	if len(o.unseen) == 0 {
		return ""
	}
	nowhere, outside := []string{}, map[string][]string{}
	for _, kind := range o.unseen {
		resource, place, some := strings.Cut(kind, " outside ")
		resource, _, _ = strings.Cut(resource, ".")
		if some {
			outside[place] = append(outside[place], resource)
		} else {
			nowhere = append(nowhere, resource)
		}
	}
	texts := []string{}
	for _, place := range slices.Sorted(maps.Keys(outside)) {
		texts = append(texts, strings.Join(slices.Compact(slices.Sorted(slices.Values(outside[place]))), ", ")+" outside "+place)
	}
	if len(nowhere) > 0 {
		texts = append(texts, strings.Join(nowhere, ", "))
	}
	return "you may not read " + strings.Join(texts, ", nor ") + "; the answer does not include what these allow or deny"
}

// sayUnseen says it once.
func (o *origin) sayUnseen(out io.Writer) {
	if text := o.unseenText(); text != "" {
		_, _ = terminal.Fprintf(out, "Incomplete: %s.\n", text)
	}
}

// read returns all objects of the policy that there is. Nothing is left out: what may not be read is an error, unless
// the command does with less.
func (o *origin) read(ctx context.Context) ([]manifests.Document, error) {
	if len(o.From) > 0 {
		return manifests.Read(o.From, nil)
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("no policy to read: give files with --from, or a server with --kubeconfig: %w", err)
	}
	if o.keep != nil {
		var all []manifests.Document
		if all, o.unseen, err = o.keep.Read(ctx, config, o.within...); err != nil {
			return nil, fmt.Errorf("the policy of %s: %w", config.Host, err)
		}
		return all, nil
	}
	var objects []*unstructured.Unstructured
	if objects, o.unseen, err = new(source.Held).DumpWithin(ctx, config, o.within); err != nil {
		return nil, fmt.Errorf("the policy of %s: %w", config.Host, err)
	}
	return manifests.OfServer(objects), nil
}

// host compiles what was read.
func (o *origin) host(ctx context.Context, documents []manifests.Document, master string) (*offline.Host, error) {
	if o.keep != nil && o.live() {
		return o.keep.Host(ctx, documents, master)
	}
	return offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: master})
}
