package etcdbackup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/platform/localetcd"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/internal/platform/terminal"
)

// ahead is added to the revision of a restored backup. Clients remember the newest revision that they have seen; no
// server writes that much between a backup and its use.
const ahead = 1_000_000_000

// NewFormerCommand returns `proviso snapshot`, the name that `proviso backup` had.
func NewFormerCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := NewCommand(streams)
	cmd.Use, cmd.Hidden = "snapshot", true
	for _, sub := range cmd.Commands() {
		sub.Deprecated = fmt.Sprintf("use `proviso backup %s`.", sub.Name())
		sub.Hidden = true
	}
	return cmd
}

// NewCommand returns `proviso backup`.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back up the embedded etcd, and restore it",
		Long: `Back up the embedded etcd, and restore it.

A backup contains everything stored in the API: objects, policies and secrets. It does not contain the certificates and keys
in the pki directory of the data directory. Without them, user certificates and service account tokens are invalid. Copy that
directory once, and keep it as safe as the backups.

For an external etcd use etcdctl and etcdutl.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSave(streams), newStatus(streams), newCheck(streams), newRestore(streams))
	for _, failing := range append(cmd.Commands(), cmd) {
		cli.FailsWith(failing, 1)
	}
	return cmd
}

func newSave(streams genericiooptions.IOStreams) *cobra.Command {
	dir := "proviso-data"
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Write a backup, while the server runs or is stopped",
		Example: `  # While the server runs, without interrupting it
  proviso backup save backup.db

  # Another data directory, a file for every day
  proviso backup save --data-dir /var/lib/proviso /backup/proviso-$(date +%F).db`,
		Args: file,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := save(cmd.Context(), dir, args[0])
			if err != nil {
				return err
			}
			_, err = terminal.Fprintf(streams.Out, "saved %s: revision %d, %d keys, %d bytes\n", b.File, b.Revision, b.Keys, b.Bytes)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "The server's data directory.")
	return cmd
}

func newStatus(streams genericiooptions.IOStreams) *cobra.Command {
	format := "table"
	cmd := &cobra.Command{
		Use:   "status FILE",
		Short: "Check that a backup is complete, and show what it contains",
		Example: `  proviso backup status backup.db
  proviso backup status backup.db -o json | jq .revision`,
		Args: file,
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "table" && format != "json" {
				return fmt.Errorf("-o %s is not known; use table or json", format)
			}
			b, err := localetcd.Inspect(args[0])
			if err != nil {
				return err
			}
			if format == "json" {
				return json.NewEncoder(streams.Out).Encode(b)
			}
			_, err = terminal.Fprintf(streams.Out, "REVISION   %d\nKEYS       %d\nBYTES      %d\nETCD       %s\nSHA256     %s\n", b.Revision, b.Keys, b.Bytes, b.Etcd, b.SHA256)
			return err
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", format, "table or json.")
	return cmd
}

func newRestore(streams genericiooptions.IOStreams) *cobra.Command {
	dir, o := "proviso-data", localetcd.Restoring{Bump: ahead}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Replace the stored data with a backup, while the server is stopped",
		Long: `Replace the stored data with a backup, while the server is stopped. The old data is kept next to it.

The command refuses a data directory that is in use. It also refuses one that is newer than the backup, unless --discard-newer
is given. The revision is increased, so clients that have seen newer objects list them again.`,
		Example: `  # Return to the state of the backup: stop the server, then
  proviso backup restore backup.db --discard-newer

  # On a new machine, with the certificates and keys of the old one
  cp -rp /backup/pki proviso-data/pki
  proviso backup restore /backup/proviso.db`,
		Args: file,
		RunE: func(_ *cobra.Command, args []string) error {
			o.Now = time.Now()
			replaced, err := restore(args[0], dir, o)
			if err != nil {
				return err
			}
			if replaced != "" {
				terminal.Fprintf(streams.ErrOut, "The old data is in %s; remove it when you no longer need it.\n", replaced)
			}
			if _, err := os.Stat(filepath.Join(dir, "pki")); errors.Is(err, os.ErrNotExist) {
				terminal.Fprintf(streams.ErrOut, "Warning: %s has no pki directory. Copy the old one there first: otherwise the server creates new keys, and everything signed with the old ones becomes invalid.\n", dir)
			}
			_, err = terminal.Fprintf(streams.Out, "restored %s to %s\n", args[0], dir)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", dir, "The server's data directory.")
	cmd.Flags().BoolVar(&o.Discard, "discard-newer", false, "Replace data that is newer than the backup.")
	cmd.Flags().Uint64Var(&o.Bump, "bump-revision", o.Bump, "How much to increase the revision; 0 keeps it.")
	return cmd
}

func file(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one file: %s; for example: %s backup.db", cmd.UseLine(), cmd.CommandPath())
	}
	return nil
}

// save asks the running server's etcd; where there is none, it starts etcd itself for the time of the backup.
func save(ctx context.Context, dir, file string) (*localetcd.Backup, error) {
	if _, err := os.Stat(filepath.Join(dir, "etcd", "member")); err != nil {
		return nil, fmt.Errorf("data dir %s has no embedded etcd: name the server's --data-dir; for an external etcd use etcdctl snapshot save", dir)
	}
	etcd := filepath.Join(dir, "etcd")
	if !localetcd.Running(etcd) {
		lock, err := pki.LockDataDir(dir)
		if err != nil {
			return nil, fmt.Errorf("%w (a running server is reached through its socket, which it does not have if the path of its data dir is too long)", err)
		}
		defer func() { _ = lock.Release() }() // it ends with the process as well
		started, err := localetcd.Start(ctx, localetcd.Config{Dir: etcd})
		if err != nil {
			return nil, err
		}
		defer started.Close()
	}
	return localetcd.Save(ctx, etcd, file)
}

func restore(file, dir string, o localetcd.Restoring) (replaced string, err error) {
	if _, err := localetcd.Inspect(file); err != nil { // before a directory is made
		return "", err
	}
	etcd := filepath.Join(dir, "etcd")
	if localetcd.Running(etcd) {
		return "", fmt.Errorf("data dir %s is in use: stop the server first", dir)
	}
	lock, err := pki.LockDataDir(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Release() }() // it ends with the process as well
	replaced, err = localetcd.Restore(file, etcd, o)
	if errors.Is(err, localetcd.ErrNewer) {
		return "", fmt.Errorf("%w; use --discard-newer to restore it anyway", err)
	}
	return replaced, err
}
