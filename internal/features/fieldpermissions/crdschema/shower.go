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

	"proviso.dev/proviso/internal/request/answer"
)

// shower shows the declarations in JSON and YAML. Everything else goes through as it is: clients of protobuf have types
// without the keys, and errors have no object.
type shower struct {
	header http.Header
	watch  bool
	// hold keeps every response back.
	hold bool
	yaml bool
}

// serve lets the servers answer. A response that is held is for the caller to release.
func (s *shower) serve(next http.Handler, w http.ResponseWriter, r *http.Request) *answer.Writer {
	s.header = w.Header()
	return answer.Serve(next, w, r, answer.Rule{First: s.first, Line: s.shown})
}

// first decides by the type of the response. One object is held until it is complete, a watch event until its line is.
func (s *shower) first(status int) answer.Fate {
	media, _, _ := mime.ParseMediaType(s.header.Get("Content-Type"))
	s.yaml = media == runtime.ContentTypeYAML
	switch shown := status/100 == 2 && (s.yaml || media == runtime.ContentTypeJSON); {
	case shown && s.watch && !s.yaml && s.header.Get("Content-Encoding") == "":
		return answer.ByLine
	case shown && !s.watch || s.hold:
		return answer.Hold
	}
	return answer.Pass
}

// release writes what was held, with the declarations.
func (s *shower) release(held *answer.Writer) {
	if held.Fate() != answer.Hold {
		return
	}
	body := held.Body()
	if s.header.Get("Content-Encoding") == "gzip" {
		body = recompressed(body, s.shown)
	} else {
		body = s.shown(body)
	}
	s.header.Del("Content-Length")
	held.Release(body)
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
