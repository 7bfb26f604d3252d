package session

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/nfsclient/nlm"
	"github.com/rdmafs/rdmafs/verbs/ibv"
)

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err          error
		what, remedy string
	}{
		{&connectError{"cannot connect", syscall.ECONNREFUSED, "start it"}, "cannot connect: connection refused", "start it"},
		{fmt.Errorf("tried: %w", &nfs3.MountError{Host: "h", Export: "/e", Why: "no", Hint: "yes"}), "h:/e: no", "yes"},
		{fmt.Errorf("rdma=ibv: %w", &ibv.UnavailableError{Missing: "no device", Remedy: "buy one"}), "no device", "buy one"},
		{fmt.Errorf("tried: %w", &nlm.Error{Host: "h", Why: "no", Hint: "yes"}), "locks on h: no", "yes"},
		{errors.New("two\nlines"), "two; lines", ""},
	} {
		if what, remedy := Explain(c.err); what != c.what || remedy != c.remedy {
			t.Errorf("%v: %q, %q", c.err, what, remedy)
		}
	}
}
