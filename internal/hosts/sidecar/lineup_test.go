package sidecar

import (
	"testing"

	"proviso.dev/proviso/internal/features/accessrequests"
)

// TM-16: beside a stock server nobody asks for access, since impersonation cannot be seen there.
func TestNobodyAsksBesideAStockServer(t *testing.T) {
	if lineup().Has(accessrequests.Gate) {
		t.Error("access can be asked for beside a stock server")
	}
}
