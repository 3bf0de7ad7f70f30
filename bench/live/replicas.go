package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Replicas are servers that share one etcd of three members, each a process of its own.
type Replicas struct {
	Servers []*Server

	bins    Binaries
	dir     string
	members []*etcdMember
}

type etcdMember struct {
	*process
	url  string
	args []string
}

// StartReplicas runs three members of etcd, has them filled, and then n replicas of `proviso serve`, one after the
// other.
func StartReplicas(ctx context.Context, bins Binaries, n int, fill func(*Server) error) (_ *Replicas, err error) {
	r := &Replicas{bins: bins}
	defer func() {
		if err != nil {
			r.Stop()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "pve"); err != nil {
		return nil, err
	}
	if err := r.startEtcd(ctx); err != nil {
		return nil, err
	}
	for i := range n {
		s, port, err := prepareAs(fmt.Sprint("replica-", i), r.Servers...)
		if err != nil {
			return nil, err
		}
		r.Servers, s.etcd = append(r.Servers, s), r.endpoints()
		if i == 0 {
			if err := fill(s); err != nil {
				return nil, err
			}
		}
		if err := s.serve(ctx, bins, port, []string{"--etcd-servers", s.etcd}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Replicas) startEtcd(ctx context.Context) error {
	var initial []string
	for i := range 3 {
		var urls [2]string
		for k := range urls {
			port, err := freePort()
			if err != nil {
				return err
			}
			urls[k] = fmt.Sprintf("http://127.0.0.1:%d", port)
		}
		name := fmt.Sprint("e", i)
		initial = append(initial, name+"="+urls[1])
		r.members = append(r.members, &etcdMember{url: urls[0], args: []string{
			"--name", name, "--data-dir", filepath.Join(r.dir, name), "--log-level", "error", "--quota-backend-bytes", fmt.Sprint(8 << 30),
			"--listen-client-urls", urls[0], "--advertise-client-urls", urls[0], "--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1]}})
	}
	for _, m := range r.members {
		m.args = append(m.args, "--initial-cluster", strings.Join(initial, ","))
		if err := r.StartMember(ctx, m.url); err != nil {
			return err
		}
	}
	for _, m := range r.members {
		if err := m.healthy(ctx, m.url); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replicas) endpoints() string {
	var urls []string
	for _, m := range r.members {
		urls = append(urls, m.url)
	}
	return strings.Join(urls, ",")
}

// Leader is where the member answers that leads the others.
func (r *Replicas) Leader(ctx context.Context) (string, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(r.endpoints(), ","), Context: ctx, DialTimeout: 5 * time.Second})
	if err != nil {
		return "", err
	}
	defer client.Close()
	for _, m := range r.members {
		if status, err := client.Status(ctx, m.url); err == nil && status.Header.MemberId == status.Leader {
			return m.url, nil
		}
	}
	return "", errors.New("no member of etcd leads")
}

// KillMember kills a member of etcd.
func (r *Replicas) KillMember(url string) {
	for _, m := range r.members {
		if m.url == url {
			m.kill()
		}
	}
}

// StartMember starts a member, which need not be ready yet when this returns.
func (r *Replicas) StartMember(ctx context.Context, url string) (err error) {
	for _, m := range r.members {
		if m.url == url {
			m.process, err = spawn(ctx, r.dir, r.bins.Etcd, m.args...)
		}
	}
	return err
}

// Kill kills a replica. Restart starts it again.
func (s *Server) Kill() {
	for _, p := range s.processes[s.stays:] {
		p.kill()
	}
	s.processes = s.processes[:s.stays]
}

// Stop ends all, and removes their data.
func (r *Replicas) Stop() {
	for _, s := range r.Servers {
		s.Stop()
	}
	for _, m := range r.members {
		if m.process != nil {
			m.kill()
		}
	}
	_ = os.RemoveAll(r.dir)
}
