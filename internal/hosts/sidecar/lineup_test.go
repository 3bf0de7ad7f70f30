package sidecar

import (
	"testing"

	"proviso.dev/proviso/internal/features/accessrequests"
	"proviso.dev/proviso/internal/features/tokens"
)

// TM-16, TK-10: beside a stock server nobody asks for access, since impersonation cannot be seen there.
func TestNobodyAsksBesideAStockServer(t *testing.T) {
	if lineup().Has(tokens.Gate) {
		t.Error("there are narrowed tokens beside a stock server")
	}
	if lineup().Has(accessrequests.Gate) {
		t.Error("access can be asked for beside a stock server")
	}
}
