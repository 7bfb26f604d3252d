package session

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpctls"
)

// TestEncryptionAway: a server that starts is tried again; what may not have been started, or put in its place, yet is if
// who mounts has asked to wait; what a certificate says never is.
func TestEncryptionAway(t *testing.T) {
	for passes, tried := range map[rpctls.Passing][2]bool{rpctls.Transient: {true, true}, rpctls.Starting: {false, true}, rpctls.Lasting: {false, false}} {
		err := &unreachableError{&connectError{"cannot connect", &rpctls.Error{What: "no answer", Err: os.ErrDeadlineExceeded, Passes: passes}, "start tlshd"}}
		for i, patient := range []bool{false, true} {
			if Away(err, patient) != tried[i] {
				t.Errorf("passing %d, patient %t: tried again: %t", passes, patient, !tried[i])
			}
		}
	}
	if !Away(&unreachableError{errors.Join(syscall.ECONNRESET)}, false) {
		t.Error("a reset is not tried again")
	}
}

// TestEncryptionExplained: an error of TLS says what helps.
func TestEncryptionExplained(t *testing.T) {
	silent := &unreachableError{&connectError{"cannot connect", &rpctls.Error{What: "no answer", Cure: "start tlshd"}, "start tlshd"}}
	if what, remedy := Explain(silent); !strings.Contains(what, "no answer") || remedy != "start tlshd" {
		t.Errorf("%q, %q", what, remedy)
	}
	if what, remedy := Explain(&rpctls.Error{What: "no key", Cure: "name it"}); what != "no key" || remedy != "name it" {
		t.Errorf("%q, %q", what, remedy)
	}
}
