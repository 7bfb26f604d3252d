package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
)

// TestRefusedInside: where MOUNT was granted and the export is not, what may help is the TLS that the mount does not have.
func TestRefusedInside(t *testing.T) {
	denied := &nfsclient.Error{Op: "FSINFO", Status: nfsclient.ErrAccess}
	for words, says := range map[string]string{"tcp": "xprtsec=tls", "tcp,xprtsec=tls": "xprtsec=mtls", "tcp,xprtsec=mtls,xprtsec_cert=/c,xprtsec_key=/k": "exportfs"} {
		o, err := options.Parse([]string{words})
		if err != nil {
			t.Fatal(err)
		}
		c := &Config{Options: o}
		_, remedy := Explain(c.refusedInside(errors.Join(&nfs3.MountError{Failure: nfs3.NFSFailed, Err: denied})))
		if !strings.Contains(remedy, says) {
			t.Errorf("%s: %q", words, remedy)
		}
		for _, other := range []*nfs3.MountError{
			{Failure: nfs3.NFSFailed, Err: &nfsclient.Error{Op: "FSINFO", Status: nfsclient.ErrStale}},
			{Failure: nfs3.NotPermitted, Err: denied}, {Failure: nfs3.NFSFailed, Err: denied, Hint: "known"},
		} {
			if got := c.refusedInside(other); got != error(other) {
				t.Errorf("%s: %v becomes %v", words, other, got)
			}
		}
	}
}
