package localetcd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const childEnv = "PROVISO_TEST_ETCD_DIR"

// TestMain lets the test binary pose as a server that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := writeForever(dir, os.Getenv(childEnv+"_ROUND")); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// writeForever writes from several clients at once and prints each key after it was acknowledged.
func writeForever(dir, round string) error {
	ctx := context.Background()
	e, err := Start(ctx, Config{Dir: dir})
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints()})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	failed := make(chan error)
	for writer := range 4 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("/round-%s/%d/%d", round, writer, i)
				if _, err := client.Put(ctx, key, strings.Repeat(key, 20)); err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Println(key)
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

// SV-1: kill -9 during the very first start leaves something the next start can use.
func TestKillDuringFirstStart(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		dir := filepath.Join(t.TempDir(), "etcd")
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+dir)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// Any moment will do; from the process's beginning to its first writes there are about 200 ms.
		time.Sleep(time.Duration(rand.Intn(200)) * time.Millisecond)
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait()
		e := start(t, Config{Dir: dir})
		put(t, dial(t, e), "/a", "1")
		e.Close()
		again := start(t, Config{Dir: dir})
		if got := get(t, dial(t, again), "/a"); got != "1" {
			t.Fatalf("a write after the restart is lost: %q", got)
		}
		again.Close()
	}
}

// SV-9: kill -9 at any moment loses no acknowledged write, over several rounds on the same data.
func TestKillLosesNoAcknowledgedWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	acknowledged := map[string]bool{}
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+dir, childEnv+"_ROUND="+strconv.Itoa(round))
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines, wanted := bufio.NewReader(out), 1+rand.Intn(300)
		for n := 0; ; n++ {
			line, err := lines.ReadString('\n')
			if err == io.EOF {
				break // a last line without its end was not acknowledged to us
			}
			if err != nil || !strings.HasPrefix(line, "/round-") {
				t.Fatalf("the other process says %q, %v", line, err)
			}
			acknowledged[strings.TrimSpace(line)] = true
			if n == wanted {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait()
		e := start(t, Config{Dir: dir})
		client := dial(t, e)
		resp, err := client.Get(context.Background(), "/", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		stored := map[string]string{}
		for _, kv := range resp.Kvs {
			stored[string(kv.Key)] = string(kv.Value)
		}
		for key := range acknowledged {
			if stored[key] != strings.Repeat(key, 20) {
				t.Fatalf("round %d: %s was acknowledged and is lost", round, key)
			}
		}
		t.Logf("round %d: %d acknowledged, %d stored", round, len(acknowledged), len(stored))
		_ = client.Close()
		e.Close()
	}
}
