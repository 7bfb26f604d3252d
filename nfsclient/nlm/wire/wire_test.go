package wire

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

func unhex(t testing.TB, parts ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// kind names one kind of message.
type kind struct {
	prog, proc uint32
	reply      bool
}

func (k kind) String() string {
	return fmt.Sprintf("program %d procedure %d %s", k.prog, k.proc, map[bool]string{false: "call", true: "reply"}[k.reply])
}

func message[T any, P interface {
	*T
	Message
}]() func() Message {
	return func() Message { return P(new(T)) }
}

// void is the arguments or results of procedures that have none.
type void struct{}

func (*void) Append(*xdr.Writer) {}
func (*void) Parse(*xdr.Reader)  {}

var messages = map[kind]func() Message{
	{Program, ProcNull, false}: message[void](), {Program, ProcNull, true}: message[void](),
	{Program, ProcTest, false}: message[TestArgs](), {Program, ProcTest, true}: message[TestRes](),
	{Program, ProcLock, false}: message[LockArgs](), {Program, ProcLock, true}: message[Res](),
	{Program, ProcCancel, false}: message[CancelArgs](), {Program, ProcCancel, true}: message[Res](),
	{Program, ProcUnlock, false}: message[UnlockArgs](), {Program, ProcUnlock, true}: message[Res](),
	{Program, ProcGranted, false}: message[TestArgs](), {Program, ProcGranted, true}: message[Res](),
	{Program, ProcGrantedMsg, false}: message[TestArgs](), {Program, ProcGrantedMsg, true}: message[void](),
	{Program, ProcGrantedRes, false}: message[Res](), {Program, ProcGrantedRes, true}: message[void](),
	{Program, ProcNMLock, false}: message[LockArgs](), {Program, ProcNMLock, true}: message[Res](),
	{Program, ProcFreeAll, false}: message[Notify](), {Program, ProcFreeAll, true}: message[void](),
	{NSMProgram, NSMNotifyProc, false}: message[StateChange](), {NSMProgram, NSMNotifyProc, true}: message[void](),
}

func decode(k kind, body []byte) (Message, error) {
	m := messages[k]()
	var r xdr.Reader
	r.Reset(body, nil)
	m.Parse(&r)
	return m, r.End()
}

var (
	someLock = Lock{Caller: "client", Handle: "\x01\x02\x03\x04\x05", OH: "owner", SVID: 0x7fffffff, Offset: 1 << 32, Length: 100}
	someHex  = "00000006 636c69656e740000 00000005 0102030405000000 00000005 6f776e6572000000 7fffffff 0000000100000000 0000000000000064"
	bareHex  = "00000000 00000000 00000000 00000001 0000000000000000 0000000000000000"
)

// written lists messages with their bytes, written out by hand from the XDR of RFC
// 1813 appendix II and of XNFS. tshark's dissector reads those of NLM as they are
// meant.
var written = []struct {
	kind kind
	m    Message
	hex  string
}{
	{kind{Program, ProcTest, false}, &TestArgs{Cookie: "\xaa\xbb\xcc\xdd", Exclusive: true, Lock: someLock}, "00000004 aabbccdd 00000001" + someHex},
	{kind{Program, ProcTest, true}, &TestRes{Cookie: "c", Stat: Granted}, "00000001 63000000 00000000"},
	{kind{Program, ProcTest, true}, &TestRes{Stat: Denied, Holder: Holder{Exclusive: true, SVID: -2, OH: "o", Offset: 7}},
		"00000000 00000001 00000001 fffffffe 00000001 6f000000 0000000000000007 0000000000000000"},
	{kind{Program, ProcLock, false}, &LockArgs{Cookie: "\x01\x02\x03\x04", Block: true, Exclusive: true, Lock: someLock, Reclaim: true, State: 3},
		"00000004 01020304 00000001 00000001" + someHex + "00000001 00000003"},
	{kind{Program, ProcLock, false}, &LockArgs{Lock: Lock{SVID: 1}}, "00000000 00000000 00000000" + bareHex + "00000000 00000000"},
	{kind{Program, ProcLock, true}, &Res{Cookie: "\x01\x02\x03\x04", Stat: DeniedGracePeriod}, "00000004 01020304 00000004"},
	{kind{Program, ProcCancel, false}, &CancelArgs{Exclusive: true, Lock: someLock}, "00000000 00000000 00000001" + someHex},
	{kind{Program, ProcCancel, true}, &Res{Stat: Denied}, "00000000 00000001"},
	{kind{Program, ProcUnlock, false}, &UnlockArgs{Cookie: "xy", Lock: someLock}, "00000002 78790000" + someHex},
	{kind{Program, ProcUnlock, true}, &Res{Stat: Failed}, "00000000 00000009"},
	{kind{Program, ProcGranted, false}, &TestArgs{Lock: Lock{SVID: 1}}, "00000000 00000000" + bareHex},
	{kind{Program, ProcGrantedMsg, false}, &TestArgs{Cookie: "k", Exclusive: true, Lock: someLock}, "00000001 6b000000 00000001" + someHex},
	{kind{Program, ProcGrantedRes, false}, &Res{Cookie: "k", Stat: Granted}, "00000001 6b000000 00000000"},
	{kind{Program, ProcFreeAll, false}, &Notify{Name: "host", State: 5}, "00000004 686f7374 00000005"},
	{kind{NSMProgram, NSMNotifyProc, false}, &StateChange{Name: "server", State: 7}, "00000006 736572766572 0000 00000007"},
}

// Each message has the bytes of its golden form, and nothing shorter is accepted.
func TestWritten(t *testing.T) {
	for _, c := range written {
		want := unhex(t, c.hex)
		var w xdr.Writer
		c.m.Append(&w)
		if got := w.Bytes(); string(got) != string(want) {
			t.Errorf("%v: encodes to\n%x, want\n%x", c.kind, got, want)
		}
		got, err := decode(c.kind, want)
		if err != nil || !reflect.DeepEqual(got, c.m) {
			t.Errorf("%v: decodes to %+v, %v", c.kind, got, err)
		}
		for n := range want {
			if _, err := decode(c.kind, want[:n]); err == nil {
				t.Errorf("%v: first %d of %d bytes accepted", c.kind, n, len(want))
			}
		}
	}
}

func TestRejects(t *testing.T) {
	opaque := func(n int) string { return fmt.Sprintf("%08x", n) + strings.Repeat("61", n+xdr.Pad(n)) }
	rest := "00000000 00000001 0000000000000000 0000000000000000"
	for name, c := range map[string]struct {
		kind kind
		hex  string
	}{
		"cookie of 1025 bytes":       {kind{Program, ProcUnlock, false}, opaque(1025) + bareHex},
		"cookie of 4 GiB":            {kind{Program, ProcLock, true}, "ffffffff 00000000"},
		"caller of 1025 bytes":       {kind{Program, ProcUnlock, false}, "00000000" + opaque(1025) + "00000000" + rest},
		"handle of 65 bytes":         {kind{Program, ProcUnlock, false}, "00000000 00000000" + opaque(65) + rest},
		"owner handle of 1025 bytes": {kind{Program, ProcUnlock, false}, "00000000 00000000 00000000" + opaque(1025) + rest[9:]},
		"boolean 2":                  {kind{Program, ProcTest, false}, "00000000 00000002" + bareHex},
		"status 10":                  {kind{Program, ProcLock, true}, "00000000 0000000a"},
		"status of a TEST 10":        {kind{Program, ProcTest, true}, "00000000 0000000a"},
		"holder without a denial":    {kind{Program, ProcTest, true}, "00000000 00000000 00000001 00000001 00000000 0000000000000000 0000000000000000"},
		"name of 1026 bytes":         {kind{Program, ProcFreeAll, false}, opaque(1026) + "00000000"},
		"monitored name of 1025":     {kind{NSMProgram, NSMNotifyProc, false}, opaque(1025) + "00000000"},
	} {
		if m, err := decode(c.kind, unhex(t, c.hex)); err == nil {
			t.Errorf("%s: accepted as %+v", name, m)
		}
	}
}

// The reply bounds are those of the largest results.
func TestReplyBoundsAreExact(t *testing.T) {
	obj := strings.Repeat("o", MaxNetObj)
	for name, c := range map[string]struct {
		m   Message
		max int
	}{
		"res":  {&Res{Cookie: obj}, ResReplyMax},
		"test": {&TestRes{Cookie: obj, Stat: Denied, Holder: Holder{OH: obj}}, TestReplyMax},
	} {
		var w xdr.Writer
		c.m.Append(&w)
		if w.Len() != c.max {
			t.Errorf("%s: largest results have %d bytes, bound is %d", name, w.Len(), c.max)
		}
	}
}

func FuzzArgs(f *testing.F)    { fuzz(f, false) }
func FuzzResults(f *testing.F) { fuzz(f, true) }

// fuzz checks that what decodes encodes to a message of the same meaning.
func fuzz(f *testing.F, reply bool) {
	for _, c := range written {
		if c.kind.reply == reply {
			f.Add(c.kind.prog, c.kind.proc, unhex(f, c.hex))
		}
	}
	f.Fuzz(func(t *testing.T, prog, proc uint32, body []byte) {
		k := kind{prog, proc, reply}
		if messages[k] == nil {
			return
		}
		m, err := decode(k, body)
		if err != nil {
			return
		}
		var w xdr.Writer
		m.Append(&w)
		if w.Len() != len(body) {
			t.Fatalf("%v: %d bytes became %d", k, len(body), w.Len())
		}
		again, err := decode(k, w.Bytes())
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%v: %+v became %+v, %v", k, m, again, err)
		}
	})
}
