package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are what a release is made of.
type options struct {
	root, out, version, ldflags, url string
	platforms                        []platform
	// date is that of the commit: the only time that appears in what is published.
	date time.Time
	// keep leaves the unpacked binaries beside the archives.
	keep bool
	// key signs; nil if nothing is signed. The provenance names the source and the commit.
	key            ed25519.PrivateKey
	source, commit string
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		err = o.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	var platforms, key string
	var epoch int64
	flags.StringVar(&o.root, "root", ".", "the root of the repository")
	flags.StringVar(&o.out, "out", "dist", "where to write, below root if it is relative; what is there is removed")
	flags.StringVar(&o.version, "version", "", "the version, v1.2.3")
	flags.StringVar(&o.ldflags, "ldflags", "", "what the linker is told")
	flags.StringVar(&o.url, "url", "https://proviso.dev/releases", "where the archives will be, without the version; for the krew manifest")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64", "what to build for; the server is not built for windows")
	flags.Int64Var(&epoch, "epoch", 0, "the date of everything, in seconds since 1970 (SOURCE_DATE_EPOCH)")
	flags.StringVar(&key, "key", "", "a file with the Ed25519 key that signs, as PKCS#8 in PEM; "+keyVariable+" has it otherwise")
	flags.StringVar(&o.source, "source", "https://proviso.dev/proviso", "the repository, for the provenance")
	flags.StringVar(&o.commit, "commit", "", "the commit that is built, for the provenance")
	flags.BoolVar(&o.keep, "keep", false, "leave the unpacked binaries")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(o.version, "v") || strings.ContainsAny(o.version, "/ ") {
		return nil, fmt.Errorf("-version %q: want v1.2.3", o.version)
	}
	var err error
	if o.key, err = signer(key); err != nil {
		return nil, err
	}
	if o.key != nil && o.commit == "" {
		return nil, errors.New("-commit: a signed release names the commit that it is made of")
	}
	o.date = time.Unix(epoch, 0).UTC()
	for _, p := range strings.Split(platforms, ",") {
		system, arch, ok := strings.Cut(strings.TrimSpace(p), "/")
		if !ok {
			return nil, fmt.Errorf("-platforms %q: want linux/amd64", p)
		}
		o.platforms = append(o.platforms, platform{system, arch})
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(o.out) {
		o.out = filepath.Join(o.root, o.out)
	}
	return o, nil
}

// run makes everything, in an order in which a failure leaves no checksums: without them nothing is published.
func (o *options) run(ctx context.Context) error {
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	work := filepath.Join(o.out, "binaries")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	extra, err := o.extras(ctx, work)
	if err != nil {
		return err
	}
	var plugins []plugin
	var images []imageBinary
	for _, p := range o.platforms {
		for _, command := range p.commands() {
			begin := time.Now()
			binary := filepath.Join(work, p.String(), p.file(command))
			if err := o.build(ctx, p, command, binary); err != nil {
				return err
			}
			archive, err := o.archive(p, command, binary, extra[command])
			if err != nil {
				return err
			}
			if err := o.bill(p, command, binary); err != nil {
				return err
			}
			switch {
			case command == "kubectl-proviso":
				plugins = append(plugins, plugin{p, archive})
			case command == "proviso" && p.system == "linux":
				images = append(images, imageBinary{p, binary})
			}
			fmt.Printf("%s (%s)\n", filepath.Base(archive), time.Since(begin).Round(time.Second))
		}
	}
	if len(images) > 0 {
		if err := o.image(images); err != nil {
			return err
		}
	}
	if err := o.krew(plugins); err != nil {
		return err
	}
	if !o.keep {
		if err := os.RemoveAll(work); err != nil {
			return err
		}
	}
	return o.sign()
}
