//go:build cgo && linux

package ibv

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/verbs/mem"
)

var noSegment mem.Seg

func TestSockaddr(t *testing.T) {
	lo, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"10.1.2.3:20049", "[fd00::7]:1", "[fe80::1%" + lo.Name + "]:65535", "0.0.0.0:0", "[::]:0"} {
		want := netip.MustParseAddrPort(text)
		s := makeSockaddr(want)
		if got := s.addrPort(); got != want {
			t.Errorf("%s came back as %s", want, got)
		}
	}
	mapped := makeSockaddr(netip.MustParseAddrPort("[::ffff:10.1.2.3]:5"))
	if got := mapped.addrPort(); got != netip.MustParseAddrPort("10.1.2.3:5") {
		t.Errorf("mapped address came back as %s", got)
	}
	var none sockaddr
	if got := none.addrPort(); got.IsValid() {
		t.Errorf("no address came back as %s", got)
	}
}

func TestStepError(t *testing.T) {
	refused := &stepError{kind: 6, status: -int(syscall.ECONNREFUSED)}
	if !errors.Is(refused, syscall.ECONNREFUSED) || !strings.Contains(refused.Error(), "connection refused") {
		t.Errorf("got %v", refused)
	}
	if silent := (&stepError{kind: 7}); !errors.Is(silent, syscall.ETIMEDOUT) {
		t.Errorf("got %v", silent)
	}
	if strange := (&stepError{kind: 99}); !strings.Contains(strange.Error(), "99") {
		t.Errorf("got %v", strange)
	}
}

// TestOpenSaysWhatIsMissing runs where there is no adapter: what is missing
// differs, the kind of error does not.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	d, err := Open(t.Context(), Config{Peer: netip.MustParseAddrPort("127.0.0.1:1")})
	if err == nil {
		d.Close()
		t.Skip("an adapter leads there")
	}
	var missing *UnavailableError
	if !errors.As(err, &missing) || missing.Missing == "" || missing.Remedy == "" {
		t.Errorf("got %v (%T)", err, err)
	}
}
