package main

import (
	"os"
	"strings"
	"testing"
)

// SV-12: the program of the page is this one, which is compiled.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-to/go-client.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "\n") // without the comment
	if !strings.Contains(string(page), "```go\n"+code+"```\n") {
		t.Error("docs/how-to/go-client.md has another program than main.go")
	}
}
