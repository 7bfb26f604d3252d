package nfs4

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/rows"
)

// TestProtocolRows checks that every row of docs/protocol-nfs.md names tests and files that exist, that all that package
// wire has is in it, and that programs see the errors that it says.
func TestProtocolRows(t *testing.T) {
	const root = "../.."
	all, err := rows.Read(filepath.Join(root, "docs/protocol-nfs.md"))
	if err != nil {
		t.Fatal(err)
	}
	c := rows.Checker{Root: root, Folder: "nfsclient/nfs4"}
	seen := map[string]map[string]*rows.Row{} // by the name of the first column
	for i := range all {
		r := &all[i]
		for _, err := range c.Check(r) {
			t.Error(err)
		}
		kind := r.Columns[0]
		if seen[kind] == nil {
			seen[kind] = map[string]*rows.Row{}
		}
		if seen[kind][r.Cells[0]] != nil {
			t.Errorf("%s %s stands there twice", kind, r.Cells[0])
		}
		seen[kind][r.Cells[0]] = r
	}
	names := map[string]bool{}
	for _, name := range wire.Names() {
		if names[name] = true; name != "" && seen["Operation"][name] == nil {
			t.Errorf("operation %s has no row", name)
		}
	}
	for name := range seen["Operation"] {
		if !names[name] {
			t.Errorf("package wire has no operation %s", name)
		}
	}
	callbacks := []wire.CBOp{wire.OpCBIllegal}
	for o := wire.OpCBGetAttr; o.Defined(2); o++ {
		callbacks = append(callbacks, o)
	}
	for _, o := range callbacks {
		if seen["Callback"][o.String()] == nil {
			t.Errorf("callback %v has no row", o)
		}
	}
	attributes := attributeNumbers(t)
	for name, r := range seen["Attribute"] {
		if attributes[r.Cell("Number")] != strings.ReplaceAll(name, "_", "") {
			t.Errorf("attribute %s has number %s, which is that of %q", name, r.Cell("Number"), attributes[r.Cell("Number")])
		}
	}
	if len(attributes) != len(seen["Attribute"]) {
		t.Errorf("%d attributes have a row, of %d", len(seen["Attribute"]), len(attributes))
	}
	statuses := 0
	for s := wire.Status(1); s < 11000; s++ {
		name, known := strings.CutPrefix(wire.StatusName(s), "NFS4ERR_")
		if !known {
			continue
		}
		statuses++
		r := seen["Status"][name]
		if r == nil {
			t.Errorf("status %s has no row", name)
			continue
		}
		if want := unix.ErrnoName(nfsclient.Errno(settle(statusOf("OP", s)))); r.Cell("To a program") != want {
			t.Errorf("%s: a program sees %s, not %s", name, want, r.Cell("To a program"))
		}
	}
	if statuses != len(seen["Status"]) || statuses < 100 {
		t.Errorf("%d statuses have a row, of %d", len(seen["Status"]), statuses)
	}
}

// attributeNumbers are the attributes that package wire has, in lower case, by number.
func attributeNumbers(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("wire/attrnum.go")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\tAttr(\w+) +AttrNum = (\d+)$`).FindAllStringSubmatch(string(text), -1) {
		name := strings.ToLower(m[1])
		for short, long := range map[string]string{"blocksize": "blksize", "suppattrexclcreate": "suppattrexclcreat"} {
			name = strings.ReplaceAll(name, short, long)
		}
		all[fmt.Sprint(m[2])] = name
	}
	return all
}
