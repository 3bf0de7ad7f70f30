package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"
)

var day = time.Unix(1_700_000_000, 0).UTC()

func releasing(t *testing.T) *options {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return &options{root: root, out: t.TempDir(), version: "v1.2.3", url: "https://example.com/releases/", date: day}
}

// program is an executable with what Go writes into each: this test.
func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// OP-1: an archive has nothing in it that depends on the machine, the order or the day.
func TestArchivesAreTheSameBytes(t *testing.T) {
	files := []file{{name: "b", data: []byte("2")}, {name: "a/"}, {name: "a/c", data: []byte("3"), mode: 0o755}}
	first, err := pack(files, day)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	second, err := pack(files, day)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the order of the files matters: %v", err)
	}
	var names []string
	for r := tar.NewReader(bytes.NewReader(first)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if !h.ModTime.Equal(day) || h.Uname != "" || h.Uid != 0 {
			t.Errorf("%s: %+v", h.Name, h)
		}
	}
	if want := []string{"a/", "a/c", "b"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	zipped, err := packZip(files, day)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	if again, err := packZip(files, day); err != nil || !bytes.Equal(zipped, again) {
		t.Errorf("zip: the order of the files matters: %v", err)
	}
	small, err := compress(first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := compress(first); err != nil || !bytes.Equal(small, again) {
		t.Errorf("gzip: two runs differ: %v", err)
	}
}

// OP-1: the SBOM names what is linked, in the versions that are linked, each once, in a form that readers accept.
func TestBillOfMaterials(t *testing.T) {
	info, err := buildinfo.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := encode(materials("proviso", "v1.2.3", day, info, []byte("program")))
	if err != nil {
		t.Fatal(err)
	}
	bom := &cyclonedx.BOM{}
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != cyclonedx.SpecVersion1_6 || !regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`).MatchString(bom.SerialNumber) {
		t.Errorf("version %v, serial number %s", bom.SpecVersion, bom.SerialNumber)
	}
	refs := map[string]bool{}
	for _, c := range *bom.Components {
		if refs[c.BOMRef] || c.Name == "" || c.Version == "" || !strings.HasPrefix(c.PackageURL, "pkg:golang/"+c.Name+"@") {
			t.Errorf("component %+v", c)
		}
		refs[c.BOMRef] = true
	}
	if len(refs) != len(info.Deps)+1 { // and Go's own packages
		t.Errorf("%d components of %d modules", len(refs), len(info.Deps))
	}
	for _, ref := range *(*bom.Dependencies)[0].Dependencies {
		if !refs[ref] {
			t.Errorf("%s is needed and not there", ref)
		}
	}
}

// OP-1: krew gets an archive, its checksum and the program in it for each platform.
func TestKrewManifest(t *testing.T) {
	o := releasing(t)
	var plugins []plugin
	for _, p := range []platform{{"linux", "arm64"}, {"windows", "amd64"}} {
		archive, err := o.archive(p, "kubectl-proviso", program(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		plugins = append(plugins, plugin{p, archive})
	}
	if err := o.krew(plugins); err != nil {
		t.Fatal(err)
	}
	if err := o.checksums(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.out, "proviso.krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(o.out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels map[string]string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Spec.Version != "v1.2.3" || len(manifest.Spec.Platforms) != 2 {
		t.Fatalf("%s", text)
	}
	windows := manifest.Spec.Platforms[1]
	if windows.URI != "https://example.com/releases/v1.2.3/kubectl-proviso_v1.2.3_windows_amd64.zip" || windows.Bin != "kubectl-proviso.exe" || windows.Selector.MatchLabels["os"] != "windows" {
		t.Errorf("%+v", windows)
	}
	for _, p := range manifest.Spec.Platforms {
		if !strings.Contains(string(sums), p.SHA256+"  "+filepath.Base(p.URI)+"\n") {
			t.Errorf("%s: the checksum is not that of SHA256SUMS:\n%s", p.URI, sums)
		}
	}
	if (platform{"windows", "amd64"}).commands()[0] != "kubectl-proviso" || len((platform{"darwin", "arm64"}).commands()) != 3 {
		t.Error("the server is for linux and darwin, the plugin for windows too")
	}
}

// OP-1: the image is valid, the same in every run, and runs as nobody special.
func TestImage(t *testing.T) {
	o := releasing(t)
	small := filepath.Join(t.TempDir(), "proviso")
	if err := os.WriteFile(small, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	binaries := []imageBinary{{platform{"linux", "amd64"}, small}, {platform{"linux", "arm64"}, small}}
	path := filepath.Join(o.out, "proviso_v1.2.3_image.tar")
	var first []byte
	for range 2 {
		if err := o.image(binaries); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, data) {
			t.Error("two runs differ")
		}
		first = data
	}
	images := loaded(t, path)
	if len(images) != 2 {
		t.Fatalf("%d images", len(images))
	}
	for platform, img := range images {
		if err := validate.Image(img); err != nil {
			t.Errorf("%s: %v", platform, err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/usr/local/bin/proviso" || !config.Created.Equal(day) || config.OS+"/"+config.Architecture != platform {
			t.Errorf("%s: %+v", platform, config)
		}
	}
	dir := t.TempDir()
	unpack(t, images["linux/amd64"], dir)
	if data, err := os.ReadFile(filepath.Join(dir, "usr/local/bin/proviso")); err != nil || string(data) != "program" {
		t.Errorf("%q %v", data, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "etc/passwd")); err != nil || !strings.Contains(string(data), ":65532:65532:") {
		t.Errorf("%q %v", data, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "etc/ssl/certs/ca-certificates.crt")); err != nil || bytes.Count(data, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("%d bytes of certificates, %v", len(data), err)
	} else if block, _ := pem.Decode(data); block == nil {
		t.Error("the certificates are no PEM")
	}
}

// loaded reads the images of an OCI archive, by platform.
func loaded(t *testing.T, archive string) map[string]v1.Image {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	untar(t, f, dir)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%+v %v", top, err)
	}
	inner, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.Image{}
	for _, m := range manifest.Manifests {
		img, err := inner.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		images[m.Platform.OS+"/"+m.Platform.Architecture] = img
	}
	return images
}

// unpack writes the layers of an image to a directory.
func unpack(t *testing.T, img v1.Image, dir string) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		untar(t, content, dir)
		_ = content.Close()
	}
}

func untar(t *testing.T, from io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, os.FileMode(h.Mode)&os.ModePerm)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, os.FileMode(h.Mode)&os.ModePerm)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
