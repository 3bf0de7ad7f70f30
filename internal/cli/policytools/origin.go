package policytools

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/source"
)

// origin is where a tool takes the policy from that there is: files, or a server (TR-1).
type origin struct {
	From   []string
	config *genericclioptions.ConfigFlags
	// keep is what was read before; nil for a command that runs once.
	keep *manifests.Kept
}

// addFlags adds --from, --kubeconfig and --context.
func (o *origin) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.From, "from", nil, "Files and directories that hold the policy that there is: manifests, or what proviso dump wrote. Without it a server is asked.")
	o.addServer(fs)
}

// addMasterFlag adds --master-namespace. Its former name works, and says so.
func addMasterFlag(fs *pflag.FlagSet, master *string) {
	fs.StringVar(master, "master-namespace", *master, "The namespace whose policy holds everywhere.")
	fs.StringVar(master, "policy-master-namespace", *master, "The former name of --master-namespace.")
	_ = fs.MarkDeprecated("policy-master-namespace", "use --master-namespace")
}

// addServer adds --kubeconfig, --context and --as alone.
func (o *origin) addServer(fs *pflag.FlagSet) {
	o.config = genericclioptions.NewConfigFlags(true)
	fs.StringVar(o.config.KubeConfig, "kubeconfig", "", "Path of the kubeconfig of the server that is asked.")
	fs.StringVar(o.config.Context, "context", "", "The kubeconfig's context to use.")
	fs.StringVar(o.config.Impersonate, "as", "", "The user that the server is asked as.")
}

// live tells that a server is asked.
func (o *origin) live() bool { return len(o.From) == 0 }

// validate checks the flags.
func (o *origin) validate() error {
	if len(o.From) > 0 && (*o.config.KubeConfig != "" || *o.config.Context != "") {
		return errors.New("--from and --kubeconfig: the policy comes from one of them")
	}
	return nil
}

// read returns all objects of the policy that there is. Nothing is left out: what may not be read is an error.
func (o *origin) read(ctx context.Context) ([]manifests.Document, error) {
	if len(o.From) > 0 {
		return manifests.Read(o.From, nil)
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("--from says where files are, --kubeconfig which server has the policy: %w", err)
	}
	if o.keep != nil {
		all, err := o.keep.Read(ctx, config)
		if err != nil {
			return nil, fmt.Errorf("the policy of %s: %w", config.Host, err)
		}
		return all, nil
	}
	objects, err := source.Dump(ctx, config)
	if err != nil {
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
