package docsite

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/platform/buildinfo"
)

// writeMan writes a manual page for every command (OP-1). It has the date of the release, so it is reproducible.
func writeMan(root *cobra.Command, dir string, streams genericiooptions.IOStreams) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("--man: %w", err)
	}
	about := buildinfo.Get()
	date, err := time.Parse(time.RFC3339, about.Date)
	if err != nil {
		date = time.Unix(0, 0)
	}
	date = date.UTC()
	root.DisableAutoGenTag = true // it names the day of writing
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "Proviso " + about.Version, Manual: "Proviso"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("--man: %w", err)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("--man: %w", err)
	}
	fmt.Fprintf(streams.Out, "wrote %d manual pages to %s; read one with: man %s/proviso.1\n", len(pages), dir, dir)
	return nil
}
