package session

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpctls"
)

// TestNotAway: what is wrong with TLS does not pass by waiting, also if it is a silence; a server that resets the connection
// before the handshake is away.
func TestNotAway(t *testing.T) {
	silent := &unreachableError{&connectError{"cannot connect", &rpctls.Error{What: "no answer", Cure: "start tlshd", Err: os.ErrDeadlineExceeded}, "start tlshd"}}
	if Away(silent) {
		t.Error("a silent handshake is tried again")
	}
	if what, remedy := Explain(silent); !strings.Contains(what, "no answer") || remedy != "start tlshd" {
		t.Errorf("%q, %q", what, remedy)
	}
	if what, remedy := Explain(&rpctls.Error{What: "no key", Cure: "name it"}); what != "no key" || remedy != "name it" {
		t.Errorf("%q, %q", what, remedy)
	}
	if !Away(&unreachableError{errors.Join(syscall.ECONNRESET)}) {
		t.Error("a reset is not tried again")
	}
}
