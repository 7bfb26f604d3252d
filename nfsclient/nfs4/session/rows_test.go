package session

import (
	"path/filepath"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/test/rows"
)

// TestVerdictRows holds what docs/protocol-nfs.md says of errors of SEQUENCE to what is done about them.
func TestVerdictRows(t *testing.T) {
	words := map[verdict]string{refuse: "fails", pauseSame: "the same again, later", lowerSame: "the same, with the lowest sa_highest_slotid",
		bindSame: "the same, once the connection is bound", otherSlot: "another slot", nextSeq: "the next sequence ID",
		lost: "a new session", confused: "a new session, the old one destroyed"}
	all, err := rows.Read(filepath.Join("../../..", "docs/protocol-nfs.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for i := range all {
		if r := &all[i]; r.Columns[0] == "Status" {
			said["NFS4ERR_"+r.Cells[0]] = r.Cell("Of SEQUENCE")
		}
	}
	for s := wire.Status(1); s < 11000; s++ {
		name := wire.StatusName(s)
		if got, listed := said[name]; listed && got != words[verdicts[s]] {
			t.Errorf("%s: %q, not %q", name, words[verdicts[s]], got)
		}
	}
	if len(said) < 100 {
		t.Errorf("%d statuses", len(said))
	}
}
