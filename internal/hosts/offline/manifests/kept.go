package manifests

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/source"
)

// Kept is the policy of a server as it was read last, for a process that asks one server again and again: what it has
// read and compiled is kept as long as the server says that it is the same. One caller at a time has the turn.
type Kept struct {
	turn    chan struct{}
	who     string
	held    *source.Held
	reads   map[*unstructured.Unstructured]*source.Reading
	objects []*unstructured.Unstructured
	master  string
	host    *offline.Host
}

// NewKept keeps nothing yet.
func NewKept() *Kept { return &Kept{turn: make(chan struct{}, 1)} }

// take waits for the turn.
func (k *Kept) take(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Read dumps what is not known yet. What another caller has read is not used. Where not all may be read, it is what may
// be read of some namespaces, and unseen is what is left out.
func (k *Kept) Read(ctx context.Context, config *rest.Config, namespaces ...string) (all []Document, unseen []string, err error) {
	if err := k.take(ctx); err != nil {
		return nil, nil, err
	}
	defer func() { <-k.turn }()
	who := asking(config)
	if k.held == nil || k.who != who {
		k.who, k.held, k.reads, k.host = who, &source.Held{}, nil, nil
	}
	objects, unseen, err := k.held.DumpWithin(ctx, config, namespaces)
	if err != nil {
		return nil, nil, err
	}
	reads := make(map[*unstructured.Unstructured]*source.Reading, len(objects))
	all = OfServer(objects)
	for i := range all {
		if read := k.reads[all[i].Object]; read != nil {
			all[i].Read = read
		}
		reads[all[i].Object] = all[i].Read
	}
	k.reads = reads
	return all, unseen, nil
}

// asking identifies the caller and the server, whatever the caller proves it with.
func asking(c *rest.Config) string {
	return fmt.Sprintf("%q %q %+v %q %q %q %q %q %q %+v %+v", c.Host, c.APIPath, c.Impersonate, c.Username, c.Password, c.BearerToken, c.BearerTokenFile, c.CertFile, c.CertData, c.ExecProvider, c.AuthProvider)
}

// Host compiles a policy, or finds it compiled.
func (k *Kept) Host(ctx context.Context, documents []Document, master string) (*offline.Host, error) {
	if err := k.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-k.turn }()
	objects := make([]*unstructured.Unstructured, len(documents))
	for i := range documents {
		objects[i] = documents[i].Object
	}
	if k.host != nil && k.master == master && slices.Equal(k.objects, objects) {
		return k.host, nil
	}
	host, err := offline.New(offline.Config{Texts: Texts(documents), MasterNamespace: master})
	if err == nil {
		k.host, k.objects, k.master = host, objects, master
	}
	return host, err
}
