package source

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/state/snapshot"
)

// dated is a kind whose informer another component runs. Its handlers get events through a queue, so only code that
// reads its objects from the indexer, not from events, is up to date.
type dated struct {
	name    string
	objects snapshot.Objects
	version string
	state   uint64
}

func (d *dated) entry() revision.Entry {
	version := d.objects.GetIndexer().LastStoreSyncResourceVersion() // before they are listed
	if version != d.version || d.state == 0 {
		var sum uint64
		for _, obj := range d.objects.GetIndexer().List() {
			sum += markOf(obj)
		}
		d.version, d.state = version, revision.State(sum)
	}
	at, _ := strconv.ParseUint(version, 10, 64) // what is not a number claims nothing
	return revision.Entry{Source: d.name, At: at, State: d.state}
}

// Revision implements snapshot.Dated.
func (s *Informers) Revision() revision.Vector {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []revision.Entry
	for _, m := range s.mirrors {
		all = append(all, m.entry())
	}
	for _, d := range s.given {
		all = append(all, d.entry())
	}
	return revision.Of(all...)
}

// OnMoved implements snapshot.Dated.
func (s *Informers) OnMoved(moved func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = moved
}

// Agent is the user agent of a server that asks itself every few seconds how recent its sources are. No caller can
// guess it, so audit sinks can leave these requests out.
var Agent = "proviso-revision/" + rand.Text()

// Newest asks the server for the revision of a source; everything that was ever written to the source is at or before
// it.
func (s *Informers) Newest(ctx context.Context, source string) (uint64, error) {
	s.mu.Lock()
	var found *mirror
	for _, m := range s.mirrors {
		if m.name == source {
			found = m
		}
	}
	s.mu.Unlock()
	if found == nil {
		return s.newestGiven(ctx, source)
	}
	return newest(found.client.Get().Resource(found.kind.Resource).Param("limit", "1").
		SetHeader("User-Agent", Agent).SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Raw())
}

func (s *Informers) newestGiven(ctx context.Context, source string) (uint64, error) {
	for _, kind := range snapshot.Kinds() {
		if _, given := s.cfg.Given[kind.GroupVersionResource]; !given || kind.GroupResource() != schema.ParseGroupResource(source) {
			continue
		}
		client, err := s.cfg.Cluster.Kubernetes()
		if err != nil {
			return 0, err
		}
		return newest(client.CoreV1().RESTClient().Get().AbsPath("apis", kind.Group, kind.Version, kind.Resource).Param("limit", "1").
			SetHeader("User-Agent", Agent).SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Raw())
	}
	return 0, fmt.Errorf("%s are not a source of this server's policy", source)
}

func newest(body []byte, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, err
	}
	return strconv.ParseUint(list.ResourceVersion, 10, 64)
}
