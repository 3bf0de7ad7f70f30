package crdschema

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// shower is a response writer that shows the declarations in JSON and YAML. Everything else goes through as it is:
// clients of protobuf have types without the keys, and errors have no object.
type shower struct {
	inner http.ResponseWriter
	watch bool
	// hold keeps every response back, until close.
	hold bool

	mode   showMode
	status int
	yaml   bool
	buffer bytes.Buffer
}

type showMode int

const (
	undecided showMode = iota
	pass               // unchanged
	whole              // one object, kept until it is complete
	lines              // one event of a watch per line
)

// Unwrap implements responsewriter.UserProvidedDecorator.
func (s *shower) Unwrap() http.ResponseWriter { return s.inner }

// Header implements http.ResponseWriter.
func (s *shower) Header() http.Header { return s.inner.Header() }

// WriteHeader decides by the type of the response.
func (s *shower) WriteHeader(status int) {
	if s.mode != undecided {
		return
	}
	s.status = status
	media, _, _ := mime.ParseMediaType(s.Header().Get("Content-Type"))
	s.yaml = media == runtime.ContentTypeYAML
	switch shown := status/100 == 2 && (s.yaml || media == runtime.ContentTypeJSON); {
	case shown && s.watch && !s.yaml && s.Header().Get("Content-Encoding") == "":
		s.mode = lines
		s.inner.WriteHeader(status)
	case shown && !s.watch || s.hold:
		s.mode = whole
	default:
		s.mode = pass
		s.inner.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (s *shower) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	switch s.mode {
	case whole:
		return s.buffer.Write(p)
	case lines:
		s.buffer.Write(p)
		return len(p), s.writeLines()
	}
	return s.inner.Write(p)
}

// writeLines writes the events that are complete.
func (s *shower) writeLines() error {
	for {
		end := bytes.IndexByte(s.buffer.Bytes(), '\n')
		if end < 0 {
			return nil
		}
		if _, err := s.inner.Write(s.shown(s.buffer.Next(end + 1))); err != nil {
			return err
		}
	}
}

// Flush implements http.Flusher. What is kept back stays back.
func (s *shower) Flush() {
	if flusher, ok := s.inner.(http.Flusher); ok && (s.mode == pass || s.mode == lines) {
		flusher.Flush()
	}
}

// close writes what was kept back.
func (s *shower) close() {
	switch s.mode {
	case lines:
		_, _ = s.inner.Write(s.buffer.Bytes())
	case whole:
		body := s.buffer.Bytes()
		if s.Header().Get("Content-Encoding") == "gzip" {
			body = recompressed(body, s.shown)
		} else {
			body = s.shown(body)
		}
		s.Header().Del("Content-Length")
		s.inner.WriteHeader(s.status)
		_, _ = s.inner.Write(body) // the client is gone
	}
}

// shown is a text with the declarations in their places. A text without any, and one that cannot be read, stays as it
// is.
func (s *shower) shown(body []byte) []byte {
	if !bytes.Contains(body, []byte(Annotation)) {
		return body
	}
	parse := parseJSON
	if s.yaml {
		parse = parseYAML
	}
	doc, err := parse(body)
	if err != nil {
		return body
	}
	show(doc.root)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	if pretty := bytes.IndexByte(bytes.TrimSpace(body), '\n') >= 0; pretty {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(doc.root); err != nil {
		return body
	}
	if s.yaml {
		if text, err := yaml.JSONToYAML(out.Bytes()); err == nil {
			return text
		}
		return body
	}
	return out.Bytes()
}

// recompressed changes a text that the server has compressed.
func recompressed(body []byte, change func([]byte) []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body
	}
	plain, err := io.ReadAll(r)
	if err != nil || !bytes.Contains(plain, []byte(Annotation)) {
		return body
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return body
	}
	if _, err := w.Write(change(plain)); err != nil {
		return body
	}
	if err := w.Close(); err != nil {
		return body
	}
	return out.Bytes()
}
