package rpcrdma

import (
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/test/rows"
)

// TestProtocolTable checks that every row of docs/protocol.md names tests and
// files that exist, and cases that stand in the file of their test.
func TestProtocolTable(t *testing.T) {
	const root = "../.."
	all, err := rows.Read(filepath.Join(root, "docs/protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	c, n := rows.Checker{Root: root, Folder: "transport/rpcrdma"}, 0
	for i := range all {
		if r := &all[i]; r.Columns[0] == "Section" {
			n++
			for _, err := range c.Check(r) {
				t.Error(err)
			}
		}
	}
	if n < 90 {
		t.Errorf("%d rows", n)
	}
}
