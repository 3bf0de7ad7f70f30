// Package byflags runs the server as `proviso serve` does, configured by its flags, in the process of a test.
package byflags

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/test/inprocess"
)

// servers counts those of this process.
var servers atomic.Int64

// Serve runs a server until the test ends, and waits until it is ready. Feature gates are of the whole process.
func Serve(t testing.TB, flags ...string) *inprocess.Server {
	t.Helper()
	if err := apiserver.RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	s := inprocess.Start(t, func(dir string, listener net.Listener) (inprocess.Run, error) {
		o := apiserver.NewOptions()
		all := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		for _, section := range o.Flags().FlagSets {
			all.AddFlagSet(section)
		}
		port := fmt.Sprintf("--secure-port=%d", listener.Addr().(*net.TCPAddr).Port)
		if err := all.Parse(append([]string{"--data-dir=" + dir, port}, flags...)); err != nil {
			return nil, err
		}
		o.Kube.SecureServing.Listener = listener
		// The name is for metrics, and a process has it once.
		name, err := cache.NewInformerName(fmt.Sprintf("byflags-%d", servers.Add(1)))
		if err != nil {
			return nil, err
		}
		o.Kube.InformerName = name
		o.Parsed(all)
		if err := o.Kube.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
			return nil, err
		}
		return func(ctx context.Context, out io.Writer) error { return apiserver.Run(ctx, o, out) }, nil
	})
	s.AwaitReady()
	return s
}
