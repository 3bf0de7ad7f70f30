package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one in an archive or in a layer of the image.
type file struct {
	name string // with a slash at its end it is a directory
	data []byte
	mode int64 // 0 is 0644, or 0755 for a directory
	uid  int
}

func (f file) directory() bool { return strings.HasSuffix(f.name, "/") }

func (f file) permissions() int64 {
	if f.mode == 0 && f.directory() {
		return 0o755
	}
	return cmp.Or(f.mode, 0o644)
}

// pack makes a tar of files: in the order of their names, with one date, one owner and nothing of this machine.
func pack(files []file, date time.Time) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.permissions(), Size: int64(len(f.data)), ModTime: date, Uid: f.uid, Gid: f.uid, Format: tar.FormatPAX}
		if f.directory() {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression) // its header has no name and no date
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// packZip does the same for windows.
func packZip(files []file, date time.Time) ([]byte, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		header.SetMode(os.FileMode(f.permissions()))
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// archive writes proviso_v1.2.3_linux_amd64.tar.gz and returns its path.
func (o *options) archive(p platform, command, binary string, extra []file) (string, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	licence, err := os.ReadFile(filepath.Join(o.root, "LICENSE"))
	if err != nil {
		return "", err
	}
	files := append([]file{{name: p.file(command), data: program, mode: 0o755}, {name: "LICENSE", data: licence}}, extra...)
	name, data := command+"_"+o.version+"_"+p.String(), []byte(nil)
	if p.system == "windows" {
		name += ".zip"
		data, err = packZip(files, o.date)
	} else {
		name += ".tar.gz"
		if data, err = pack(files, o.date); err == nil {
			data, err = compress(data)
		}
	}
	if err != nil {
		return "", err
	}
	path := filepath.Join(o.out, name)
	return path, os.WriteFile(path, data, 0o644)
}

// sumsName is the file of checksums, the one thing to check after a download.
const sumsName = "SHA256SUMS"

// checksums writes SHA256SUMS, in the form that sha256sum -c reads.
func (o *options) checksums() error {
	made, err := o.subjects()
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range made {
		fmt.Fprintf(&text, "%s  %s\n", f.Digest["sha256"], f.Name)
	}
	return os.WriteFile(filepath.Join(o.out, sumsName), []byte(text.String()), 0o644)
}

func checksum(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
