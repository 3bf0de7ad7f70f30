package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageBinary is the server for one platform of the image.
type imageBinary struct {
	platform
	path string
}

// nobody is the user that the server runs as; 65532 is that of distroless images.
const nobody = 65532

// image writes an OCI layout as a tar: `skopeo copy oci-archive:FILE …`, `podman load`, `ctr image import` read it. It
// has the server, a user that is not root, and nothing else: no shell, no libraries. The root can be read-only; what
// the server writes is in /data and /tmp.
func (o *options) image(binaries []imageBinary) error {
	index := v1.ImageIndex(empty.Index)
	for _, b := range binaries {
		img, err := o.imageOf(b)
		if err != nil {
			return fmt.Errorf("image for %s: %w", b.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.system, Architecture: b.arch}}})
	}
	index = mutate.IndexMediaType(index, types.OCIImageIndex)
	dir, err := os.MkdirTemp("", "proviso-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	top, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := top.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": o.version})); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, file{name: filepath.ToSlash(name), data: data})
		return err
	})
	if err != nil {
		return err
	}
	data, err := pack(files, o.date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "proviso_"+o.version+"_image.tar"), data, 0o644)
}

func (o *options) imageOf(b imageBinary) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	system, err := systemFiles()
	if err != nil {
		return nil, err
	}
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	for _, files := range [][]file{system, {{name: "usr/local/bin/proviso", data: program, mode: 0o755}}} {
		layer, err := layerOf(files, o)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, layer); err != nil {
			return nil, err
		}
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: b.system, Architecture: b.arch, Created: v1.Time{Time: o.date},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", nobody, nobody), WorkingDir: "/data", Env: []string{"PATH=/usr/local/bin", "HOME=/data", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
			Entrypoint: []string{"/usr/local/bin/proviso"}, Cmd: []string{"serve", "--data-dir=/data", "--bind-address=0.0.0.0"},
			ExposedPorts: map[string]struct{}{"6443/tcp": {}}, Volumes: map[string]struct{}{"/data": {}, "/tmp": {}},
			Labels: map[string]string{"org.opencontainers.image.title": "Proviso", "org.opencontainers.image.version": o.version, "org.opencontainers.image.licenses": "Apache-2.0"},
		},
		RootFS: diffIDs(img), History: []v1.History{{Created: v1.Time{Time: o.date}, CreatedBy: "hack/release: system"}, {Created: v1.Time{Time: o.date}, CreatedBy: "hack/release: proviso"}},
	})
	return img, err
}

func diffIDs(img v1.Image) v1.RootFS {
	config, err := img.ConfigFile()
	if err != nil {
		return v1.RootFS{Type: "layers"}
	}
	return v1.RootFS{Type: "layers", DiffIDs: slices.Clone(config.RootFS.DiffIDs)}
}

// systemFiles are what a static program expects of a system. The certificates of public authorities are those of
// Mozilla, in a version that go.mod pins: those of this machine would differ from the next one.
func systemFiles() ([]file, error) {
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil { // a file of certificates cannot say how far one is trusted
			continue
		}
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return []file{
		{name: "data/", uid: nobody, mode: 0o700},
		{name: "etc/"},
		{name: "etc/group", data: fmt.Appendf(nil, "root:x:0:\nproviso:x:%d:\n", nobody)},
		{name: "etc/nsswitch.conf", data: []byte("hosts: files dns\n")},
		{name: "etc/passwd", data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nproviso:x:%d:%d:Proviso:/data:/sbin/nologin\n", nobody, nobody)},
		{name: "etc/ssl/"},
		{name: "etc/ssl/certs/"},
		{name: "etc/ssl/certs/ca-certificates.crt", data: certificates.Bytes()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/"},
		{name: "usr/local/"},
		{name: "usr/local/bin/"},
	}, nil
}

func layerOf(files []file, o *options) (v1.Layer, error) {
	data, err := pack(files, o.date)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, tarball.WithMediaType(types.OCILayer))
}
