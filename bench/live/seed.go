package live

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// perTransaction is what etcd takes at once unless told otherwise.
const perTransaction = 128

// Seed writes n objects into the server's etcd as the server itself would store them, under the given prefix of their
// names. It stands for a past in which they were written one by one through the API, which takes minutes; the server
// learns of them by its watches. object returns the i-th with its kind set.
func (s *Server) Seed(ctx context.Context, prefix string, n int, object func(i int) (name string, o runtime.Object)) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(s.etcd, ","), Context: ctx})
	if err != nil {
		return err
	}
	defer client.Close()
	stored := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for first := 0; first < n; first += perTransaction {
		var puts []clientv3.Op
		for i := first; i < min(n, first+perTransaction); i++ {
			name, o := object(i)
			var value bytes.Buffer
			if err := stored.Encode(o, &value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			puts = append(puts, clientv3.OpPut("/registry/"+prefix+"/"+name, value.String()))
		}
		if _, err := client.Txn(ctx).Then(puts...).Commit(); err != nil {
			return err
		}
	}
	return nil
}
