package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// bill writes the software bill of materials of a binary: what the linker has put into it, as the binary itself says.
func (o *options) bill(p platform, command, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	data, err := encode(materials(command, o.version, o.date, info, program))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, command+"_"+o.version+"_"+p.String()+".cdx.json"), data, 0o644)
}

func materials(command, version string, date time.Time, info *debug.BuildInfo, program []byte) *cyclonedx.BOM {
	sum := sha256.Sum256(program)
	main := cyclonedx.Component{
		BOMRef: "pkg:golang/" + info.Path + "@" + version, Type: cyclonedx.ComponentTypeApplication, Name: command, Version: version,
		PackageURL: "pkg:golang/" + info.Path + "@" + version,
		Hashes:     &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	components := []cyclonedx.Component{{BOMRef: "pkg:golang/std@" + goVersion, Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: goVersion, PackageURL: "pkg:golang/std@" + goVersion}}
	for _, m := range info.Deps {
		path := m.Path
		if m.Replace != nil && !strings.HasPrefix(m.Replace.Path, ".") {
			m = m.Replace
		}
		v := m.Version
		if strings.HasPrefix(path, "proviso.dev/proviso/") { // replaced by a directory of the same commit
			v = version
		}
		url := "pkg:golang/" + path + "@" + v
		components = append(components, cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: v, PackageURL: url})
	}
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}
	bom := cyclonedx.NewBOM()
	id := hex.EncodeToString(sum[:16]) // of the content, so that it is the same in every build
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%s-%s-5%s-8%s-%s", id[:8], id[8:12], id[13:16], id[17:20], id[20:])
	bom.Metadata = &cyclonedx.Metadata{Timestamp: date.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bom
}

func encode(bom *cyclonedx.BOM) ([]byte, error) {
	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}
