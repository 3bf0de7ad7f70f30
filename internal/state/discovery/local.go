package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// LocalAPIs returns what servers of this process themselves serve, with the versions of each group in the order in
// which their scheme prefers them. It asks each server for its own list, bypassing the aggregator, so custom resource
// definitions and APIServices cannot influence it. It does not change while the process runs.
func LocalAPIs(ctx context.Context, servers ...*genericapiserver.GenericAPIServer) (lists []*metav1.APIResourceList, err error) {
	for _, server := range servers {
		if server == nil || server.DiscoveryGroupManager == nil {
			continue
		}
		root, err := http.NewRequestWithContext(ctx, http.MethodGet, "/apis", nil)
		if err != nil {
			return nil, err
		}
		groups, err := server.DiscoveryGroupManager.Groups(ctx, root)
		if err != nil {
			return nil, err
		}
		paths := []string{"/api/v1"}
		for _, group := range groups {
			for _, v := range group.Versions {
				paths = append(paths, "/apis/"+v.GroupVersion)
			}
		}
		for i, path := range paths {
			list, err := askInProcess(ctx, server.Handler.GoRestfulContainer, path)
			switch {
			case err != nil:
				return nil, err
			case list != nil:
				lists = append(lists, list)
			case i > 0: // only one server has the core group
				return nil, fmt.Errorf("%s is listed and not served", path)
			}
		}
	}
	if len(lists) == 0 {
		return nil, fmt.Errorf("nothing is served in this process")
	}
	return lists, nil
}

// askInProcess reads the resources of one group version; nil if it is not served.
func askInProcess(ctx context.Context, handler http.Handler, path string) (*metav1.APIResourceList, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	answer := &inMemory{code: http.StatusOK, header: http.Header{}}
	handler.ServeHTTP(answer, request)
	switch answer.code {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("%s: %d %s", path, answer.code, answer.body)
	}
	list := &metav1.APIResourceList{}
	if err := json.Unmarshal(answer.body, list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// inMemory is a response that stays in this process.
type inMemory struct {
	code   int
	header http.Header
	body   []byte
}

func (m *inMemory) Header() http.Header  { return m.header }
func (m *inMemory) WriteHeader(code int) { m.code = code }
func (m *inMemory) Write(p []byte) (int, error) {
	m.body = append(m.body, p...)
	return len(p), nil
}
