package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// noise lists the fields that the server itself changes.
var noise = []string{".metadata.managedFields", ".metadata.resourceVersion", ".metadata.generation", ".metadata.creationTimestamp", ".metadata.uid"}

// differences returns the fields in which two objects differ, one per line: + for added ones, - for removed ones.
func differences(old, updated map[string]any) (lines []string) {
	before, after := map[string]string{}, map[string]string{}
	flatten(before, "", old)
	flatten(after, "", updated)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, had := before[path]
		is, has := after[path]
		switch {
		case was == is && had == has:
		case had && has:
			lines = append(lines, fmt.Sprintf("  ~ %s: %s → %s\n", path, was, is))
		case has:
			lines = append(lines, fmt.Sprintf("  + %s: %s\n", path, is))
		default:
			lines = append(lines, fmt.Sprintf("  - %s: %s\n", path, was))
		}
	}
	return lines
}

// flatten lists the leaves of a value by their paths.
func flatten(into map[string]string, path string, value any) {
	if slices.Contains(noise, path) {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			flatten(into, path+"."+key, inner)
		}
		if len(v) > 0 || path == "" {
			return
		}
	case []any:
		for i, inner := range v {
			flatten(into, fmt.Sprintf("%s[%d]", path, i), inner)
		}
		if len(v) > 0 {
			return
		}
	}
	text, _ := json.Marshal(value) // what was read from JSON
	into[path] = string(text)
}
