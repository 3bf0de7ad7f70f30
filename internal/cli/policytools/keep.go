package policytools

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/source"
)

// Keeping returns the commands for a process that asks one server again and again, as the explorer does: what it has
// read and compiled is kept as long as the server says that it is the same (EX-3).
func Keeping() func(genericiooptions.IOStreams) []*cobra.Command {
	k := &keep{turn: make(chan struct{}, 1)}
	return func(streams genericiooptions.IOStreams) []*cobra.Command { return commands(streams, k) }
}

// keep is the policy of a server as it was read last. Whoever reads has the turn.
type keep struct {
	turn    chan struct{}
	who     string
	held    *source.Held
	reads   map[*unstructured.Unstructured]*source.Reading
	objects []*unstructured.Unstructured
	master  string
	host    *offline.Host
}

// take waits for the turn.
func (k *keep) take(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read dumps what is not known yet. What somebody else has read is not used.
func (k *keep) read(ctx context.Context, config *rest.Config) ([]document, error) {
	if err := k.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-k.turn }()
	who := asking(config)
	if k.held == nil || k.who != who {
		k.who, k.held, k.reads, k.host = who, &source.Held{}, nil, nil
	}
	objects, err := k.held.Dump(ctx, config)
	if err != nil {
		return nil, err
	}
	reads := make(map[*unstructured.Unstructured]*source.Reading, len(objects))
	all := documentsOf(objects)
	for i := range all {
		if read := k.reads[all[i].object]; read != nil {
			all[i].Read = read
		}
		reads[all[i].object] = all[i].Read
	}
	k.reads = reads
	return all, nil
}

// asking tells who asks which server, whatever he proves it with.
func asking(c *rest.Config) string {
	return fmt.Sprintf("%q %q %+v %q %q %q %q %q %q %+v %+v", c.Host, c.APIPath, c.Impersonate, c.Username, c.Password, c.BearerToken, c.BearerTokenFile, c.CertFile, c.CertData, c.ExecProvider, c.AuthProvider)
}

// hostOf compiles a policy, or finds it compiled.
func (k *keep) hostOf(ctx context.Context, documents []document, master string) (*offline.Host, error) {
	if err := k.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-k.turn }()
	objects := make([]*unstructured.Unstructured, len(documents))
	for i := range documents {
		objects[i] = documents[i].object
	}
	if k.host != nil && k.master == master && slices.Equal(k.objects, objects) {
		return k.host, nil
	}
	host, err := offline.New(offline.Config{Texts: texts(documents), MasterNamespace: master})
	if err == nil {
		k.host, k.objects, k.master = host, objects, master
	}
	return host, err
}
