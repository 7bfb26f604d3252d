package cm

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
)

// golden reads testdata/linux.txt: a datagram for each message but MRA, which
// Linux does not send in a session without loss.
func golden(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/linux.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]byte)
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" || digits == "" {
			continue
		}
		if out[name], err = hex.DecodeString(digits); err != nil {
			continue // a remark
		}
	}
	// IBTA 12.6.6, by hand: MRA of a REQ, for 4.096 µs << 24.
	mra := make([]byte, MADSize)
	copy(mra, []byte{1, 7, 2, 3, 15: 9, 17: 0x11, 24: 0xaa, 27: 1, 28: 0xbb, 31: 2, 32: 0, 33: 24 << 3})
	out["MRA"] = mra
	return out
}

// message is what all messages have.
type message interface {
	Append(b []byte, tid uint64) []byte
}

// parsers is each message's parser.
var parsers = map[string]func([]byte) (message, error){
	"REQ":  func(b []byte) (message, error) { m, err := ParseREQ(b); return &m, err },
	"MRA":  func(b []byte) (message, error) { m, err := ParseMRA(b); return &m, err },
	"REJ":  func(b []byte) (message, error) { m, err := ParseREJ(b); return &m, err },
	"REP":  func(b []byte) (message, error) { m, err := ParseREP(b); return &m, err },
	"RTU":  func(b []byte) (message, error) { m, err := ParseRTU(b); return &m, err },
	"DREQ": func(b []byte) (message, error) { m, err := ParseDREQ(b); return &m, err },
	"DREP": func(b []byte) (message, error) { m, err := ParseDREP(b); return &m, err },
}

func field(n int, b ...byte) []byte { return append(b, make([]byte, n-len(b))...) }

func TestGolden(t *testing.T) {
	rpcrdma := []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3}
	client, server := netip.MustParseAddr("10.99.0.3"), netip.MustParseAddr("10.99.0.2")
	want := map[string]message{
		"REQ": &REQ{
			CommID: 0xccc94b35, ServiceID: 0x1064e51, CAGUID: 0x505400fffe990003, QPN: 0x11, PSN: 0x095e0d,
			ResponderResources: 128, RemoteTimeout: 20, LocalTimeout: 20, RetryCount: 6, PKey: 0xffff, MTU: 3, MaxCMRetries: 15,
			LocalGID: client, RemoteGID: server, HopLimit: 64, AckTimeout: 17,
			Addresses: CMA{SrcPort: 0xdf68, Src: client, Dst: server},
			Private:   field(REQPrivate, rpcrdma...),
		},
		"MRA":  &MRA{CommID: 0xaa000001, RemoteID: 0xbb000002, Of: OfREQ, Timeout: 24},
		"REJ":  &REJ{RemoteID: 0xd3eeffbb, Reason: ReasonNoService, Info: []byte{}, Private: field(REJPrivate)},
		"RTU":  &RTU{CommID: 0xccc94b35, RemoteID: 0xda278798},
		"DREQ": &DREQ{CommID: 0xccc94b35, RemoteID: 0xda278798, RemoteQPN: 0x11},
		"DREP": &DREP{CommID: 0xda278798, RemoteID: 0xccc94b35},
	}
	frames := golden(t)
	rep, err := ParseREP(frames["REP"])
	if err != nil || rep.CommID != 0xda278798 || rep.RemoteID != 0xccc94b35 || rep.CAGUID != 0x505400fffe990002 ||
		!bytes.Equal(rep.Private[:4], rpcrdma[:4]) || rep.InitiatorDepth == 0 || rep.QPN == 0 {
		t.Errorf("REP: %+v, %v", rep, err)
	}
	want["REP"] = &rep
	for name, b := range frames {
		got, err := parsers[name](b)
		if err != nil || !reflect.DeepEqual(got, want[name]) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, want[name])
			continue
		}
		h, _ := ParseHeader(b)
		again := got.Append(nil, h.TID)
		b = bytes.Clone(b)
		if name == "REQ" {
			clear(b[headerSize+88 : headerSize+91]) // a flow label, which RoCE over IPv4 has not
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%s: appended\n%x, want\n%x", name, again, b)
		}
	}
	if len(frames) != len(parsers) {
		t.Errorf("%d golden datagrams for %d messages", len(frames), len(parsers))
	}
}

// TestIPv6: addresses stand whole, in the path and in the consumer's header.
func TestIPv6(t *testing.T) {
	a, b := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	m := REQ{LocalGID: a, RemoteGID: b, Addresses: CMA{SrcPort: 7, Src: a, Dst: b}}
	wire := m.Append(nil, 1)
	cma := wire[headerSize+reqPrivateAt:]
	if cma[1] != 0x60 || !bytes.Equal(cma[4:20], field(16, 0xfd)[:15:15]) && cma[19] != 1 || cma[35] != 2 || wire[headerSize+71] != 1 {
		t.Errorf("%x", wire)
	}
	if got, err := ParseREQ(wire); err != nil || got.Addresses != m.Addresses || got.LocalGID != a || got.RemoteGID != b {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRejectsMalformed(t *testing.T) {
	frames := golden(t)
	for name, parse := range parsers {
		for n := range frames[name] {
			if _, err := parse(frames[name][:n]); err == nil {
				t.Errorf("%s of %d bytes is taken", name, n)
			}
		}
		if _, err := parse(append(bytes.Clone(frames[name]), 0)); err == nil {
			t.Errorf("%s with a byte behind it is taken", name)
		}
		for _, at := range []int{0, 1, 2, 3, 17} {
			b := bytes.Clone(frames[name])
			b[at] ^= 0x40
			if _, err := parse(b); err == nil {
				t.Errorf("%s with byte %d changed is taken", name, at)
			}
		}
	}
	for what, change := range map[string]struct {
		name string
		at   int
		b    byte
	}{
		"version of the addressing header": {"REQ", headerSize + reqPrivateAt, 1},
		"version of IP":                    {"REQ", headerSize + reqPrivateAt + 1, 0x50},
		"length of additional information": {"REJ", headerSize + 9, (maxARI + 1) << 1},
	} {
		b := bytes.Clone(frames[change.name])
		b[change.at] = change.b
		if _, err := parsers[change.name](b); err == nil {
			t.Errorf("a wrong %s is taken", what)
		}
	}
}

func TestNames(t *testing.T) {
	for name, b := range golden(t) {
		if h, err := ParseHeader(b); err != nil || h.Attr.String() != name {
			t.Errorf("%s is called %v, %v", name, h.Attr, err)
		}
	}
	if s := Attr(0x19).String(); s != "attribute 0x0019" {
		t.Error(s)
	}
	if s := ReasonNoService.String(); !strings.Contains(s, "nobody listens") || !strings.Contains(s, "8") {
		t.Error(s)
	}
	if s := Reason(999).String(); s != "reason 999" {
		t.Error(s)
	}
}

// FuzzParse: no input makes a parser panic, and what one accepts can be
// appended and parsed to the same again.
func FuzzParse(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, parse := range parsers {
			m, err := parse(b)
			if err != nil {
				continue
			}
			h, err := ParseHeader(b)
			if err != nil {
				t.Fatalf("%s with a bad header: %v", name, err)
			}
			again, err := parse(m.Append(nil, h.TID))
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("%s: %+v became %+v, %v", name, m, again, err)
			}
		}
	})
}

// FuzzManager: datagrams of a stranger never crash a manager, and never reach
// a connection that is not the stranger's.
func FuzzManager(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t)
		r.establish()
		stranger := netip.MustParseAddr("10.0.0.9")
		for range 2 {
			r.b.m.Receive(r.now, stranger, r.b.addr, b)
		}
		events, out := r.b.m.Take()
		for _, e := range events {
			if e.Kind != Requested {
				t.Errorf("a stranger caused %+v", e)
			}
		}
		for _, d := range out {
			if d.To != stranger || len(d.MAD) != MADSize {
				t.Errorf("a stranger caused a datagram to %v", d.To)
			}
		}
		if len(out) > 2 {
			t.Errorf("%d answers to 2 datagrams", len(out))
		}
		r.up()
	})
}
