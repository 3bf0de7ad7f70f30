package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/test/stock"
)

// idle answers the webhooks of a pair, at the sidecar's address and with its certificate, without looking.
func idle(ctx context.Context, pair *stock.Pair) error {
	listener, err := net.Listen("tcp", pair.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		if strings.HasSuffix(r.URL.Path, "/authorize") {
			review := &authorizationv1.SubjectAccessReview{}
			if json.NewDecoder(r.Body).Decode(review) != nil {
				return
			}
			answer = review // no opinion
		} else {
			review := &admissionv1.AdmissionReview{}
			if json.NewDecoder(r.Body).Decode(review) != nil || review.Request == nil {
				return
			}
			review.Response, review.Request = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}, nil
			answer = review
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})}
	files := pki.BesideFiles(pair.Side)
	go func() { _ = server.ServeTLS(listener, files.ServerCert, files.ServerKey) }()
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	return nil
}

// neverAsked gives the webhooks of a pair conditions that are never met: what remains is what they cost everybody whom
// they do not concern.
func neverAsked(pair *stock.Pair) error {
	for name, mark := range map[string]string{filepath.Join("static", "proviso.yaml"): "  matchConditions:\n", "authorization.yaml": "    matchConditions:\n"} {
		path := filepath.Join(pair.Side, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		before, after, found := strings.Cut(string(text), mark)
		if !found {
			return fmt.Errorf("%s has no match conditions", path)
		}
		if name == "authorization.yaml" {
			before += mark + "    - expression: \"false\"\n"
			if at := strings.Index(after, "\n- {type: Node"); at >= 0 {
				before += after[at+1:]
			}
		} else {
			before += mark + "  - {name: never, expression: \"false\"}\n"
		}
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// used is the processor time of the API server and of the sidecar so far.
func (s *stack) used() (all [2]time.Duration) {
	for i, cmd := range s.servers[1:] {
		all[i] = processor(cmd.Process.Pid)
	}
	return all
}

// processor is the processor time of a process so far.
func processor(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident is what a process has in memory: of its own, and of files, which is the program itself.
type resident struct{ own, files int64 }

func (r resident) String() string {
	return fmt.Sprintf("%d MB (%d MB of its own)", (r.own+r.files)>>20, r.own>>20)
}

func memory(pid int) (r resident) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return r
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "RssAnon:":
			r.own = kilobytes << 10
		case "RssFile:", "RssShmem:":
			r.files += kilobytes << 10
		}
	}
	return r
}

// bind writes role bindings, a hundred in each namespace, and waits until the sidecar knows the last one.
func (s *stack) bind(ctx context.Context, n int) error {
	const lanes, perNamespace = 8, 100
	var next atomic.Int64
	failed := make(chan error, lanes)
	for range lanes {
		go func() {
			client, err := rest.HTTPClientFor(s.admin)
			for err == nil {
				i := int(next.Add(1)) - 1
				if i*perNamespace >= n {
					break
				}
				namespace := fmt.Sprintf("n%d", i)
				if err = send(ctx, client, http.MethodPost, s.pair.URL()+"/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, namespace)); err != nil {
					break
				}
				for j := range min(perNamespace, n-i*perNamespace) {
					body := fmt.Sprintf(`{"metadata":{"name":"b%[1]d"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cost"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"user-%[2]d-%[1]d"}]}`, j, i)
					if err = send(ctx, client, http.MethodPost, s.pair.URL()+"/apis/rbac.authorization.k8s.io/v1/namespaces/"+namespace+"/rolebindings", body); err != nil {
						break
					}
				}
			}
			failed <- err
		}()
	}
	for range lanes {
		if err := <-failed; err != nil {
			return err
		}
	}
	// The last one of them may read.
	last := fmt.Sprintf("n%d", (n-1)/perNamespace)
	data, err := pki.IssueClient(s.pair.Files, pki.ClientRequest{User: fmt.Sprintf("user-%d-%d", (n-1)/perNamespace, (n-1)%perNamespace), TTL: time.Hour, Server: s.pair.URL()})
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	deadline := time.Now().Add(time.Minute)
	for err == nil {
		if err = send(ctx, client, http.MethodGet, s.pair.URL()+"/api/v1/namespaces/"+last+"/configmaps", ""); err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		err = ctx.Err()
	}
	return err
}
