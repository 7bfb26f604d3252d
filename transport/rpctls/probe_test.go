package rpctls

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/rdmafs/rdmafs/test/must"
)

// The probe and its answer, put together by hand from RFC 9289 section 4.1 and RFC 5531 sections 9 and 11.
const (
	goldenProbe = "80000028" + "00000001" + "00000000" + "00000002" + "000186a3" + "00000003" + "00000000" + "00000007" + "00000000" + "00000000" + "00000000"
	goldenStart = "80000020" + "00000001" + "00000001" + "00000000" + "00000000" + "00000008" + "5354415254544c53" + "00000000"
)

func TestGoldenProbe(t *testing.T) {
	probe, start := must.Hex(t, goldenProbe), must.Hex(t, goldenStart)
	if got := appendNull(nil, 1, 100003, 3, flavorTLS); !bytes.Equal(got, probe) {
		t.Errorf("probe: %x", got)
	}
	if xid, is := isProbe(probe[4:]); !is || xid != 1 {
		t.Errorf("the probe is not known: %v, %d", is, xid)
	}
	if got := appendStart(nil, 1); !bytes.Equal(got, start) {
		t.Errorf("answer: %x", got)
	}
	// What follows the answer is of TLS, and stays.
	r := bytes.NewReader(append(bytes.Clone(start), "TLS"...))
	if got, err := readReply(r, 1); err != nil || got != (reply{starts: true}) || r.Len() != 3 {
		t.Errorf("answer read as %+v, %v, %d bytes left", got, err, r.Len())
	}
}

// TestNoProbe: a call that differs from the probe in any word is none.
func TestNoProbe(t *testing.T) {
	probe := must.Hex(t, goldenProbe)[4:]
	for i := range probe {
		other := bytes.Clone(probe)
		other[i] ^= 0x10
		// The transaction id, the program and its version may be any.
		want := i < 4 || i >= 12 && i < 20
		if _, is := isProbe(other); is != want {
			t.Errorf("byte %d changed: %v", i, is)
		}
	}
	for n := range probe {
		if _, is := isProbe(probe[:n]); is {
			t.Errorf("%d bytes are taken for the probe", n)
		}
	}
}

func TestReplies(t *testing.T) {
	start := must.Hex(t, goldenStart)[4:]
	change := func(at int, to ...byte) []byte {
		b := bytes.Clone(start)
		copy(b[at:], to)
		return b
	}
	for name, c := range map[string]struct {
		msg  []byte
		want reply
		err  error
	}{
		"STARTTLS":                 {start, reply{starts: true}, nil},
		"whatever accept_stat":     {change(31, 1), reply{starts: true}, nil},
		"another verifier":         {change(20, 'X'), reply{}, nil},
		"verifier of a flavor":     {change(15, 1), reply{}, nil},
		"no verifier":              {append(change(19, 0)[:20], 0, 0, 0, 0), reply{}, nil},
		"AUTH_BADCRED":             {must.Hex(t, "00000001"+"00000001"+"00000001"+"00000001"+"00000001"), reply{denied: true}, nil},
		"other transaction":        {change(0, 1), reply{}, errNoReply},
		"a call":                   {change(7, 0), reply{}, errNoReply},
		"reply_stat 2":             {change(11, 2), reply{}, errNoReply},
		"verifier beyond its end":  {change(19, 9), reply{}, errNoReply},
		"verifier above the bound": {change(16, 0xff, 0xff, 0xff, 0xfc), reply{}, errNoReply},
	} {
		got, err := parseReply(c.msg, 1)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for n := range start {
		if got, err := parseReply(start[:n], 1); !errors.Is(err, errNoReply) {
			t.Errorf("%d bytes: %+v, %v", n, got, err)
		}
	}
}

// TestRecords: the peer does not choose how much is read, and what ends early is no reply.
func TestRecords(t *testing.T) {
	record := must.Hex(t, goldenStart)
	for n := range record {
		_, err := readReply(bytes.NewReader(record[:n]), 1)
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if err != want {
			t.Errorf("%d bytes: %v, want %v", n, err, want)
		}
	}
	for name, mark := range map[string]string{
		"too long": "80000400", "longest": "ffffffff", "too short": "80000008", "empty": "80000000", "fragment": "00000020", "alert of TLS": "15030300", "HTTP": "48545450",
	} {
		if _, err := readReply(bytes.NewReader(append(must.Hex(t, mark), make([]byte, 2000)...)), 1); !errors.Is(err, errNoReply) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add(must.Hex(f, goldenStart))
	f.Add(must.Hex(f, goldenProbe))
	f.Add(must.Hex(f, "80000014"+"00000001"+"00000001"+"00000001"+"00000001"+"00000001"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		got, err := readReply(r, 1)
		if read := len(b) - r.Len(); read > 4+maxReply {
			t.Errorf("%d bytes were read", read)
		}
		if err == nil && got.starts && (!bytes.Contains(b, []byte(startTLS)) || got.denied) {
			t.Errorf("%x starts TLS", b)
		}
		if xid, is := isProbe(b); is && !bytes.Equal(appendNull(nil, xid, be(b[12:]), be(b[16:]), flavorTLS)[4:], b) {
			t.Errorf("%x is taken for the probe", b)
		}
	})
}

func be(b []byte) uint32 { return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]) }
