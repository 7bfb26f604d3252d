package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// cbSample is a callback compound with its results, and what tshark reads in its call.
type cbSample struct {
	name string
	CBCompound
	call []field
}

// cbOne is a compound whose last operation ends with st.
func cbOne(name string, st Status, ops ...CBOperation) cbSample {
	ops = append([]CBOperation{&CBSequence{Session: sampleSession, SequenceID: 41, Slot: 3, HighestSlot: 5, CacheThis: true,
		Referring:  []ReferringCalls{{sampleSession, []ReferringCall{{7, 8}, {9, 10}}}, {Session: sampleSession}},
		ResSession: sampleSession, ResSequenceID: 41, ResSlot: 3, ResHighestSlot: 15, TargetHighestSlot: 14}}, ops...)
	return cbSample{name: name, CBCompound: CBCompound{Tag: "tagged", Minor: 2, Ident: 77, Ops: ops, Status: st, Done: len(ops)}}
}

func (s cbSample) says(call ...field) cbSample {
	s.call = call
	return s
}

// cbSamples are compounds of every operation, with each arm of the unions in them.
func cbSamples() []cbSample {
	return []cbSample{
		cbOne("recall", OK, &CBRecall{Stateid: sampleStateid, Truncate: true, Handle: "abcde"}).says(
			field{"nfs.cb.operation", "4"}, field{"nfs.stateid.seqid", "7"}, field{"nfs.fh.length", "5"}),
		cbOne("recall fails", ErrBadStateid, &CBRecall{Stateid: sampleStateid, Handle: "abcde"}),
		cbOne("getattr", OK, &CBGetAttr{Handle: "abcdefgh", Want: BitmapOf(AttrChange, AttrSize), Attrs: Attrs{Mask: BitmapOf(AttrChange, AttrSize), Change: 99, Size: 12345}}).says(
			field{"nfs.cb.operation", "3"}, field{"nfs.fh.length", "8"}),
		cbOne("getattr fails", nfsclient.ErrBadHandle, &CBGetAttr{Handle: "abcd", Want: BitmapOf(AttrChange)}),
		cbOne("recall_any", OK, &CBRecallAny{Keep: 100, Types: Bitmap{1 << RecallAnyReadDeleg}}).says(field{"nfs.cb.operation", "8"}),
		cbOne("recall_slot", OK, &CBRecallSlot{Target: 3}).says(field{"nfs.cb.operation", "10"}),
		cbOne("notify_lock", OK, &CBNotifyLock{Handle: "abcd", Owner: sampleOwner}).says(field{"nfs.cb.operation", "13"}),
		cbOne("offload", OK, &CBOffload{Handle: "abcd", Stateid: otherStateid, Copied: 1 << 30, HasCallback: true, Callback: sampleStateid, Committed: nfsclient.FileSync, Verifier: sampleVerf}),
		cbOne("offload ends early", OK, &CBOffload{Handle: "abcd", Stateid: otherStateid, Outcome: nfsclient.ErrIO, Copied: 77}),
		cbOne("illegal", ErrOpIllegal, &CBRecallSlot{Target: 1}),
		cbOne("sequence fails", ErrBadSession),
		{name: "minor version mismatch", CBCompound: CBCompound{Minor: 2, Ops: []CBOperation{&CBRecallSlot{}}, Status: ErrMinorVersMismatch}},
	}
}

// goldenCallbacks are calls of Linux 6.12 on this client, and the sequence ID that each has.
var goldenCallbacks = []struct {
	name string
	call string
	seq  uint32
}{
	{"over TCP", "000000000000000200000000000000020000000bcd02046b2509bc59010000000000000000000001000000000000000000000000000000000000000400000001cd02046b2509bc590300000000000000000000140100010101000000c8f2395f0200000000000000", 1},
	{"over TCP, once more", "000000000000000200000000000000020000000bcd02046b2509bc59010000000000000000000002000000000000000000000000000000000000000400000001cd02046b2509bc59150000000000000000000014010001010100000009cf65230600000000000000", 2},
	{"over siw", "000000000000000200000000000000020000000bd602046b2809bc59040000000000000000000001000000000000000000000000000000000000000400000001d602046b2809bc5903000000000000000000001401000101010000000a723eee0a00000000000000", 1},
}

func TestGoldenCallbacks(t *testing.T) {
	for _, g := range goldenCallbacks {
		t.Run(g.name, func(t *testing.T) {
			call, err := hex.DecodeString(g.call)
			if err != nil {
				t.Fatal(err)
			}
			var c CBCompound
			if err := cbDecode(&c, call); err != nil {
				t.Fatal(err)
			}
			if len(c.Ops) != 2 || c.Minor != 2 || c.Ident != 0 || c.Tag != "" {
				t.Fatalf("%+v", c)
			}
			seq, ok := c.Ops[0].(*CBSequence)
			if !ok || seq.SequenceID != g.seq || seq.Slot != 0 || seq.HighestSlot != 0 || seq.CacheThis || len(seq.Referring) != 0 || seq.Session == (SessionID{}) {
				t.Errorf("%+v", c.Ops[0])
			}
			recall, ok := c.Ops[1].(*CBRecall)
			if !ok || recall.Stateid.Seqid != 1 || recall.Truncate || len(recall.Handle) != 20 {
				t.Errorf("%+v", c.Ops[1])
			}
			c.Done = 2
			x := cbEncode(&c)
			if !bytes.Equal(x.call, call) {
				t.Errorf("encodes to %x", x.call)
			}
			cbRoundTrip(t, x)
		})
	}
}

func cbDecode(c *CBCompound, call []byte) error {
	var r xdr.Reader
	r.Reset(call, nil)
	c.ParseArgs(&r)
	return r.End()
}

func cbDecodeRes(c *CBCompound, reply []byte) error {
	var r xdr.Reader
	r.Reset(reply, nil)
	c.ParseRes(&r)
	return r.End()
}

func cbEncode(c *CBCompound) exchange {
	var w [2]xdr.Writer
	c.AppendArgs(&w[0])
	c.AppendRes(&w[1])
	return exchange{w[0].Bytes(), w[1].Bytes()}
}

// cbRoundTrip checks that an exchange decodes, encodes to the same bytes, and is refused when it is cut or goes on.
func cbRoundTrip(t *testing.T, x exchange) (c CBCompound) {
	t.Helper()
	if err := cbDecode(&c, x.call); err != nil {
		t.Fatalf("call: %v", err)
	}
	if err := cbDecodeRes(&c, x.reply); err != nil {
		t.Fatalf("reply: %v", err)
	}
	if n := c.ReplyMax(); len(x.reply) > n {
		t.Errorf("reply of %d bytes, bound is %d", len(x.reply), n)
	}
	if again := cbEncode(&c); !bytes.Equal(again.call, x.call) || !bytes.Equal(again.reply, x.reply) {
		t.Errorf("encodes to\n%x, %x\ninstead of\n%x, %x", again.call, again.reply, x.call, x.reply)
	}
	d := c
	for n := range x.reply {
		if cbDecodeRes(&d, x.reply[:n]) == nil {
			t.Errorf("first %d of %d bytes of a reply accepted", n, len(x.reply))
		}
	}
	if cbDecodeRes(&d, append(bytes.Clone(x.reply), 0, 0, 0, 0)) == nil {
		t.Error("word behind a reply accepted")
	}
	var e CBCompound
	for n := range x.call {
		if cbDecode(&e, x.call[:n]) == nil {
			t.Errorf("first %d of %d bytes of a call accepted", n, len(x.call))
		}
	}
	if cbDecode(&e, append(bytes.Clone(x.call), 0, 0, 0, 0)) == nil {
		t.Error("word behind a call accepted")
	}
	return c
}

func TestCallbackSamples(t *testing.T) {
	seen := map[CBOp]bool{}
	for _, s := range cbSamples() {
		t.Run(s.name, func(t *testing.T) {
			c := cbRoundTrip(t, cbEncode(&s.CBCompound))
			if c.Done != s.Done || c.Status != s.Status || c.Minor != s.Minor || c.Tag != s.Tag || c.Ident != s.Ident {
				t.Errorf("became %+v", c)
			}
			for _, o := range c.Ops {
				seen[o.Op()] = true
			}
		})
	}
	for n := OpCBGetAttr; n <= OpCBOffload; n++ {
		if _, unknown := NewCB(n, 2).(*CBUnknown); !unknown && !seen[n] {
			t.Errorf("no sample of %v", n)
		}
	}
}

// A client reads what it can of a request with an operation that it does not know.
func TestUnknownCallbacks(t *testing.T) {
	for _, test := range []struct {
		op      CBOp
		minor   uint32
		defined bool
	}{{OpCBLayoutRecall, 1, true}, {OpCBOffload, 1, false}, {OpCBNotifyDeviceID, 2, true}, {16, 2, false}, {2, 1, false}} {
		var w xdr.Writer
		w.String("")
		for _, v := range []uint32{test.minor, 0, 3, uint32(OpCBRecallSlot), 5, uint32(test.op), 1, 2, 3, 4, 5, 6, 7} {
			w.Uint32(v)
		}
		var c CBCompound
		if err := cbDecode(&c, w.Bytes()); err != nil {
			t.Fatal(err)
		}
		u, ok := c.Ops[len(c.Ops)-1].(*CBUnknown)
		if len(c.Ops) != 2 || !ok || u.Op() != test.op || u.Op().Defined(test.minor) != test.defined {
			t.Errorf("operation %d of minor %d became %+v", test.op, test.minor, c.Ops)
		}
	}
	var w xdr.Writer
	w.String("tag")
	for _, v := range []uint32{3, 0, 1, 77, 1} {
		w.Uint32(v)
	}
	var c CBCompound
	if err := cbDecode(&c, w.Bytes()); err != nil || c.Minor != 3 || len(c.Ops) != 0 {
		t.Errorf("minor version 3: %+v, %v", c, err)
	}
}

func TestCallbackRejects(t *testing.T) {
	recall := []CBOperation{&CBRecall{}}
	for name, c := range map[string]struct {
		ops   []CBOperation
		reply []uint32
	}{
		"result of another operation":     {recall, []uint32{0, 0, 1, uint32(OpCBRecallSlot), 0}},
		"more results than operations":    {recall, []uint32{0, 0, 2, uint32(OpCBRecall), 0, uint32(OpCBRecall), 0}},
		"no results and success":          {recall, []uint32{0, 0, 0}},
		"success at the end of a failure": {recall, []uint32{70, 0, 1, uint32(OpCBRecall), 0}},
		"illegal operation with success":  {recall, []uint32{0, 0, 1, uint32(OpCBIllegal), 0}},
		"attributes that were not asked for": {[]CBOperation{&CBGetAttr{Want: BitmapOf(AttrChange)}},
			append([]uint32{0, 0, 1, uint32(OpCBGetAttr), 0, 2, 0, 1 << (AttrOwner - 32), 260, 256}, make([]uint32, 64)...)},
	} {
		var b []byte
		for _, v := range c.reply {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		q := CBCompound{Minor: 2, Ops: c.ops}
		if err := cbDecodeRes(&q, b); err == nil {
			t.Errorf("%s is accepted: %x", name, b)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// Whatever number stands in a word of a callback, decoding it allocates no more than a small multiple of the message.
func TestHostileCallbackWords(t *testing.T) {
	const perMessage = 64 << 10
	var before, after runtime.MemStats
	for _, s := range cbSamples() {
		x := cbEncode(&s.CBCompound)
		for _, v := range []uint32{1<<32 - 1, 1 << 31, 1 << 20, 1025, 1024, 129, 2, 0} {
			runtime.ReadMemStats(&before)
			n := 0
			for at := 0; at+4 <= len(x.call); at += 4 {
				b := bytes.Clone(x.call)
				binary.BigEndian.PutUint32(b[at:], v)
				var c CBCompound
				_ = cbDecode(&c, b)
				n++
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > uint64(n)*perMessage {
				t.Errorf("%s with words of %#x: %d messages took %d bytes", s.name, v, n, got)
			}
		}
	}
}

func FuzzCallback(f *testing.F) {
	for _, s := range cbSamples() {
		x := cbEncode(&s.CBCompound)
		f.Add(x.call, x.reply)
	}
	for _, g := range goldenCallbacks {
		call, err := hex.DecodeString(g.call)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(call, []byte{})
	}
	f.Fuzz(func(t *testing.T, call, reply []byte) {
		var c CBCompound
		if cbDecode(&c, call) != nil || cbSpoilt(&c) {
			return
		}
		once := cbEncode(&c).call
		var again CBCompound
		if err := cbDecode(&again, once); err != nil {
			t.Fatalf("%x became %x: %v", call, once, err)
		}
		if cbDecodeRes(&c, reply) != nil || cbSpoilt(&c) {
			return
		}
		if size, limit := len(reply), c.ReplyMax(); size > limit {
			t.Fatalf("reply of %d bytes accepted, ReplyMax is %d", size, limit)
		}
		once = cbEncode(&c).reply
		if err := cbDecodeRes(&c, once); err != nil {
			t.Fatalf("%x became %x: %v", reply, once, err)
		}
	})
}

// cbSpoilt reports whether a compound has what cannot be encoded as it came.
func cbSpoilt(c *CBCompound) bool {
	for _, op := range c.Ops {
		switch o := op.(type) {
		case *CBUnknown:
			return true
		case *CBGetAttr:
			if o.Attrs.Err != nil {
				return true
			}
		}
	}
	return false
}

// TestTsharkCallbacks has tshark, which shares no code with the project, read the calls that are encoded.
func TestTsharkCallbacks(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skipf("needs tshark (make setup): %v", err)
	}
	asked := []string{"_ws.malformed", "nfs.cb.operation", "nfs.stateid.seqid", "nfs.fh.length"}
	list := cbSamples()
	file := filepath.Join(t.TempDir(), "callbacks.pcap")
	if err := os.WriteFile(file, cbRecord(list), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-r", file, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=|"}
	for _, f := range asked {
		args = append(args, "-e", f)
	}
	out, err := exec.Command(tshark, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != len(list) {
		t.Fatalf("tshark read %d messages of %d", len(lines), len(list))
	}
	for i, s := range list {
		got := map[string][]string{}
		for j, v := range strings.Split(lines[i], "\t") {
			if v != "" {
				got[asked[j]] = strings.Split(v, "|")
			}
		}
		if got["_ws.malformed"] != nil {
			t.Errorf("%s: tshark finds it malformed", s.name)
		}
		for _, f := range append(s.call, field{"nfs.cb.operation", fmt.Sprint(uint32(s.Ops[0].Op()))}) {
			if !slices.Contains(got[f.name], f.value) {
				t.Errorf("%s: tshark reads %s %q, not %q", s.name, f.name, got[f.name], f.value)
			}
		}
	}
}

// cbRecord is a pcap file of the calls as RPC over TCP.
func cbRecord(list []cbSample) []byte {
	le := binary.LittleEndian
	file := pcapHeader()
	for i, s := range list {
		var w xdr.Writer
		for _, v := range []uint32{uint32(1000 + i), 0, 2, CallbackProgram, CallbackVersion, ProcCBCompound, 0, 0, 0, 0} {
			w.Uint32(v)
		}
		s.AppendArgs(&w)
		packet := tcpPacket(2049, uint16(50000+i), 2, 1, w.Bytes())
		file = le.AppendUint32(file, uint32(i))
		file = le.AppendUint32(file, 0)
		file = le.AppendUint32(file, uint32(len(packet)))
		file = le.AppendUint32(file, uint32(len(packet)))
		file = append(file, packet...)
	}
	return file
}
