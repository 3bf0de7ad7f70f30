package docsite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
)

// NewCommand returns `proviso docs`.
func NewCommand(streams genericiooptions.IOStreams, documents fs.FS) *cobra.Command {
	var listen, out, man string
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "Read the documentation in a browser",
		Long: `Serve the documentation of this version as a searchable site: guides, examples, explanations, and the reference of commands,
metrics and findings. It is built into the binary and needs no network.

Exit code 0 after Ctrl-C, 1 if it could not start or write.`,
		Example: `  # Serve it on a free port of this machine, and print the address
  proviso docs

  # Write it to a directory, for your own web server
  proviso docs --out site

  # Write manual pages
  proviso docs --man man && man man/proviso-who-can.1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if man != "" {
				return writeMan(cmd.Root(), man, streams)
			}
			site, err := New(documents, cmd.Root())
			if err != nil {
				return err
			}
			if out != "" {
				return site.write(out, streams)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return site.serve(ctx, listen, streams)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "Address and port to serve it on.")
	cmd.Flags().StringVar(&out, "out", "", "Write the site to this directory, which must be empty or not exist, and exit.")
	cmd.Flags().StringVar(&man, "man", "", "Write a manual page for every command to this directory, and exit.")
	cmd.MarkFlagsMutuallyExclusive("out", "man")
	cli.FailsWith(cmd, 1)
	return cmd
}

func (s Site) write(dir string, streams genericiooptions.IOStreams) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("--out: %s is not empty; name a new directory", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--out: %w", err)
	}
	for name, data := range s {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // for everybody to read
			return err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil { //nolint:gosec // for everybody to read
			return err
		}
	}
	fmt.Fprintf(streams.Out, "wrote %d files to %s; begin with %s\n", len(s), dir, filepath.Join(dir, "index.html"))
	return nil
}

func (s Site) serve(ctx context.Context, address string, streams genericiooptions.IOStreams) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(streams.Out, "http://%s/\n", listener.Addr())
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP only serves the content of the site.
func (s Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this site is read-only", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" || strings.HasSuffix(r.URL.Path, "/") {
		name = path.Join(name, "index.html")
	}
	data, ok := s[name]
	if !ok {
		http.Error(w, "page not found; start at /", http.StatusNotFound)
		return
	}
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) {
	case ".html", ".css", ".js", ".json", ".png", ".svg":
	default:
		kind = "text/plain; charset=utf-8"
	}
	h.Set("Content-Type", kind)
	_, _ = w.Write(data) // the client has gone
}
