// Package proviso holds the documents of the repository, so that the binary can show them (`proviso docs`).
package proviso

import "embed"

// Documents are the pages and what they link to, by their paths in the repository.
//
//go:embed README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs examples deploy
var Documents embed.FS
