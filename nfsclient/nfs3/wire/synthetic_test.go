package wire

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

func unhex(t testing.TB, parts ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	someAttr = Attr{Type: nfsclient.CharDevice, Mode: 0o4755, Nlink: 2, UID: 3, GID: 4, Size: 5 << 32, Used: 6,
		Rdev: nfsclient.Device{Major: 7, Minor: 8}, FSID: 9, FileID: 10 << 40,
		Atime: Time{11, 12}, Mtime: Time{13, 14}, Ctime: Time{15, 16}}
	someAttrHex = "00000004 000009ed 00000002 00000003 00000004 0000000500000000 0000000000000006" +
		"00000007 00000008 0000000000000009 00000a0000000000 0000000b 0000000c 0000000d 0000000e 0000000f 00000010"
	somePost    = PostAttr{Set: true, Attr: someAttr}
	somePostHex = "00000001" + someAttrHex
)

// written lists messages that the captures lack, with their bytes written out
// by hand from the XDR of RFC 1813 and RFC 1833.
var written = []struct {
	key messageKey
	m   Message
	hex string
}{
	{messageKey{NFSProgram, 3, ProcMknod, false},
		&MknodArgs{Where: DirOp{"dir", "null"}, Type: nfsclient.CharDevice, Dev: nfsclient.Device{Major: 1, Minor: 3},
			Attr: SetAttr{Mode: OptUint32{true, 0o666}}},
		"00000003 64697200 00000004 6e756c6c 00000004 00000001 000001b6 00000000 00000000 00000000 00000000 00000000 00000001 00000003"},
	{messageKey{NFSProgram, 3, ProcMknod, false},
		&MknodArgs{Where: DirOp{"dir", "f"}, Type: nfsclient.FIFO, Attr: SetAttr{Atime: SetTime{How: nfsclient.TimeServer},
			Mtime: SetTime{nfsclient.TimeClient, Time{1, 2}}, Size: OptUint64{true, 9}}},
		"00000003 64697200 00000001 66000000 00000007 00000000 00000000 00000000 00000001 0000000000000009 00000001 00000002 00000001 00000002"},
	{messageKey{NFSProgram, 3, ProcMknod, false}, &MknodArgs{Where: DirOp{"d", "f"}, Type: nfsclient.Regular},
		"00000001 64000000 00000001 66000000 00000001"},
	{messageKey{NFSProgram, 3, ProcMknod, true}, &MadeRes{Handle: PostHandle{true, "fh"}, Attr: somePost},
		"00000000 00000001 00000002 66680000" + somePostHex + "00000000 00000000"},
	{messageKey{NFSProgram, 3, ProcCreate, false},
		&CreateArgs{Where: DirOp{"d", "f"}, Mode: Exclusive, Verifier: nfsclient.Verifier{1, 2, 3, 4, 5, 6, 7, 8}},
		"00000001 64000000 00000001 66000000 00000002 0102030405060708"},
	{messageKey{NFSProgram, 3, ProcSetAttr, false},
		&SetAttrArgs{Handle: "h", Attr: SetAttr{UID: OptUint32{true, 1}, GID: OptUint32{true, 2}}, Guarded: true, Guard: Time{3, 4}},
		"00000001 68000000 00000000 00000001 00000001 00000001 00000002 00000000 00000000 00000000 00000001 00000003 00000004"},
	{messageKey{NFSProgram, 3, ProcReadDir, false},
		&ReadDirArgs{Dir: "d", Cookie: 1 << 33, Verifier: nfsclient.Verifier{9}, Count: 4096},
		"00000001 64000000 0000000200000000 0900000000000000 00001000"},
	{messageKey{NFSProgram, 3, ProcReadDir, true},
		&ReadDirRes{Dir: somePost, Verifier: nfsclient.Verifier{7: 1}, EOF: true,
			Entries: []Entry{{FileID: 1, Name: ".", Cookie: 2}, {FileID: 3, Name: "abcde", Cookie: 4}}},
		"00000000" + somePostHex + "0000000000000001" +
			"00000001 0000000000000001 00000001 2e000000 0000000000000002" +
			"00000001 0000000000000003 00000005 6162636465000000 0000000000000004 00000000 00000001"},
	{messageKey{NFSProgram, 3, ProcReadDir, true}, &ReadDirRes{Status: nfsclient.ErrBadCookie}, "00002713 00000000"},
	{messageKey{NFSProgram, 3, ProcReadDirPlus, true},
		&ReadDirRes{Plus: true, Entries: []Entry{{FileID: 1, Name: "a", Cookie: 2}, {FileID: 1, Name: "b", Cookie: 3, Attr: somePost}}},
		"00000000 00000000 0000000000000000 00000001 0000000000000001 00000001 61000000 0000000000000002 00000000 00000000" +
			"00000001 0000000000000001 00000001 62000000 0000000000000003" + somePostHex + "00000000 00000000 00000000"},
	{messageKey{NFSProgram, 3, ProcCommit, false}, &CommitArgs{Handle: "h", Offset: 4096, Count: 8192},
		"00000001 68000000 0000000000001000 00002000"},
	{messageKey{NFSProgram, 3, ProcCommit, true},
		&CommitRes{Wcc: Wcc{Before: PreAttr{true, 1, Time{2, 3}, Time{4, 5}}, After: somePost}, Verifier: nfsclient.Verifier{0xaa}},
		"00000000 00000001 0000000000000001 00000002 00000003 00000004 00000005" + somePostHex + "aa00000000000000"},
	{messageKey{NFSProgram, 3, ProcRead, true}, &ReadRes{Status: nfsclient.ErrStale}, "00000046 00000000"},
	{messageKey{NFSProgram, 3, ProcWrite, true}, &WriteRes{Status: nfsclient.ErrNoSpace, Wcc: Wcc{After: somePost}},
		"0000001c 00000000" + somePostHex},
	{messageKey{NFSProgram, 3, ProcAccess, true}, &AccessRes{Status: nfsclient.ErrAccess}, "0000000d 00000000"},
	{messageKey{NFSProgram, 3, ProcReadLink, true}, &ReadLinkRes{Status: nfsclient.ErrInval}, "00000016 00000000"},
	{messageKey{NFSProgram, 3, ProcGetAttr, true}, &GetAttrRes{Status: nfsclient.ErrJukebox}, "00002718"},
	{messageKey{NFSProgram, 3, ProcFSStat, true}, &FSStatRes{Status: nfsclient.ErrIO}, "00000005 00000000"},
	{messageKey{NFSProgram, 3, ProcFSInfo, true}, &FSInfoRes{Status: nfsclient.ErrIO}, "00000005 00000000"},
	{messageKey{NFSProgram, 3, ProcPathConf, true}, &PathConfRes{Status: nfsclient.ErrIO}, "00000005 00000000"},
	{messageKey{ACLProgram, 3, ACLGet, false}, &GetACLArgs{Handle: "h", Mask: ACLAll}, "00000001 68000000 0000000f"},
	{messageKey{ACLProgram, 3, ACLGet, true}, &GetACLRes{Status: nfsclient.ErrNotSupp}, "00002714 00000000"},
	{messageKey{ACLProgram, 3, ACLGet, true}, &GetACLRes{Attr: somePost, ACLs: ACLs{Mask: ACLAll, AccessCount: 1, DefaultCount: 7,
		Access: []ACLEntry{{1, 2, 7}}}},
		"00000000" + somePostHex + "0000000f 00000001 00000001 00000001 00000002 00000007 00000007 00000000"},
	{messageKey{ACLProgram, 3, ACLSet, false}, &SetACLArgs{Handle: "h", ACLs: ACLs{Mask: ACLAccess | ACLDefault, AccessCount: 2, DefaultCount: 1,
		Access:  []ACLEntry{{2, 1000, 6}, {0x20, 0, 4}},
		Default: []ACLEntry{{0x1001, 5, 7}}}},
		"00000001 68000000 00000005 00000002 00000002 00000002 000003e8 00000006 00000020 00000000 00000004" +
			"00000001 00000001 00001001 00000005 00000007"},
	{messageKey{ACLProgram, 3, ACLSet, true}, &SetACLRes{Attr: somePost}, "00000000" + somePostHex},
	{messageKey{MountProgram, 3, MountMnt, true}, &MntRes{Status: MountErrAccess}, "0000000d"},
	{messageKey{MountProgram, 3, MountDump, true}, &DumpRes{Mounts: []MountEntry{{"host", "/a"}}},
		"00000001 00000004 686f7374 00000002 2f610000 00000000"},
	{messageKey{MountProgram, 3, MountExport, true},
		&ExportRes{Exports: []ExportEntry{{Path: "/a", Groups: []string{"x", "y"}}, {Path: "/b"}}},
		"00000001 00000002 2f610000 00000001 00000001 78000000 00000001 00000001 79000000 00000000" +
			"00000001 00000002 2f620000 00000000 00000000"},
	{messageKey{RpcbindProgram, 4, RpcbindGetAddr, false},
		&Rpcb{Program: MountProgram, Version: 3, NetID: "tcp6", Addr: "", Owner: ""},
		"000186a5 00000003 00000004 74637036 00000000 00000000"},
	{messageKey{RpcbindProgram, 4, RpcbindSet, false},
		&Rpcb{Program: NFSProgram, Version: 3, NetID: "rdma", Addr: "0.0.0.0.78.81", Owner: "root"},
		"000186a3 00000003 00000004 72646d61 0000000d 302e302e302e302e37382e3831000000 00000004 726f6f74"},
	{messageKey{RpcbindProgram, 4, RpcbindUnset, true}, &SetRes{OK: true}, "00000001"},
	{messageKey{RpcbindProgram, 4, RpcbindDump, true},
		&RpcbList{List: []Rpcb{{Program: NFSProgram, Version: 3, NetID: "tcp", Addr: "a"}, {Program: NFSProgram, Version: 3, NetID: "rdma6", Addr: "::", Owner: "x"}}},
		"00000001 000186a3 00000003 00000003 74637000 00000001 61000000 00000000" +
			"00000001 000186a3 00000003 00000005 72646d6136000000 00000002 3a3a0000 00000001 78000000 00000000"},
	{messageKey{RpcbindProgram, 4, RpcbindGetAddr, true}, &GetAddrRes{Addr: "::1.8.1"}, "00000007 3a3a312e382e3100"},
}

func TestWritten(t *testing.T) {
	for _, c := range written {
		want := unhex(t, c.hex)
		var w xdr.Writer
		c.m.Append(&w)
		if got := w.Bytes(); string(got) != string(want) {
			t.Errorf("%v: encodes to\n%x, want\n%x", c.key, got, want)
		}
		got, err := decode(c.key, want)
		if err != nil || !same(got, c.m) {
			t.Errorf("%v: decodes to %+v, %v", c.key, got, err)
		}
		for n := range want {
			if _, err := decode(c.key, want[:n]); err == nil {
				t.Errorf("%v: first %d of %d bytes accepted", c.key, n, len(want))
			}
		}
	}
}

// same compares messages; an empty list equals none.
func same(a, b Message) bool {
	for _, m := range []Message{a, b} {
		if d, ok := m.(*ReadDirRes); ok && len(d.Entries) == 0 {
			d.Entries = nil
		}
	}
	return reflect.DeepEqual(a, b)
}

// Values out of an enumeration's range and lengths over their bounds.
func TestRejects(t *testing.T) {
	for name, c := range map[string]struct {
		key messageKey
		hex string
	}{
		"handle of 65 bytes":         {messageKey{NFSProgram, 3, ProcGetAttr, false}, "00000041" + strings.Repeat("00", 68)},
		"name of 1025 bytes":         {messageKey{NFSProgram, 3, ProcLookup, false}, "00000000 00000401" + strings.Repeat("61", 1028)},
		"target of 4097":             {messageKey{NFSProgram, 3, ProcReadLink, true}, "00000000 00000000 00001001" + strings.Repeat("61", 4100)},
		"length of 4 GiB":            {messageKey{NFSProgram, 3, ProcRead, true}, "00000000 00000000 00000004 00000001 ffffffff 61616161"},
		"file type 0":                {messageKey{NFSProgram, 3, ProcGetAttr, true}, "00000000 00000000" + strings.Repeat("00", 80)},
		"file type 8":                {messageKey{NFSProgram, 3, ProcGetAttr, true}, "00000000 00000008" + strings.Repeat("00", 80)},
		"boolean 2":                  {messageKey{NFSProgram, 3, ProcRead, true}, "00000005 00000002" + strings.Repeat("00", 84)},
		"time_how 3":                 {messageKey{NFSProgram, 3, ProcSetAttr, false}, "00000000 00000000 00000000 00000000 00000000 00000003 00000000 00000000"},
		"createmode 3":               {messageKey{NFSProgram, 3, ProcCreate, false}, "00000000 00000000 00000003" + strings.Repeat("00", 24)},
		"stable_how 3":               {messageKey{NFSProgram, 3, ProcWrite, false}, "00000000 0000000000000000 00000000 00000003 00000000"},
		"committed 3":                {messageKey{NFSProgram, 3, ProcWrite, true}, "00000000 00000000 00000000 00000000 00000003 0000000000000000"},
		"1025 entries":               {messageKey{ACLProgram, 3, ACLSet, false}, "00000000 00000001 00000000 00000401" + strings.Repeat("00", 12*1025) + "00000000 00000000"},
		"entries that are not there": {messageKey{ACLProgram, 3, ACLGet, true}, "00000000 00000000 0000000f 00000001 00000400"},
		"257 flavors":                {messageKey{MountProgram, 3, MountMnt, true}, "00000000 00000000 00000101" + strings.Repeat("00000001", 257)},
		"export of 1025":             {messageKey{MountProgram, 3, MountMnt, false}, "00000401" + strings.Repeat("61", 1028)},
		"entry without an end": {messageKey{NFSProgram, 3, ProcReadDir, true},
			"00000000 00000000 0000000000000000 00000001 0000000000000001 00000001 61000000 0000000000000001"},
	} {
		if m, err := decode(c.key, unhex(t, c.hex)); err == nil {
			t.Errorf("%s: accepted as %+v", name, m)
		}
	}
}

// A Bulk stands in a payload or in the stream, and what one side writes either
// way the other reads either way.
func TestBulkInPayloads(t *testing.T) {
	a, err := mem.NewArena(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	data := mem.Vec{a.Seg(0, 3), a.Seg(100, 2)}
	data.CopyIn(0, []byte("hello"))

	var w xdr.Writer
	w.Reset(nil, []mem.Vec{data})
	(&WriteArgs{Handle: "h", Count: 5, Data: Marked(0)}).Append(&w)
	if m := w.Marks(); len(m) != 1 || m[0].Pos != 28 || m[0].Len != 5 || w.Len() != 36 {
		t.Fatalf("marks %+v, length %d", m, w.Len())
	}
	var r xdr.Reader
	r.Reset(w.Bytes(), nil)
	r.SetLayout(item{len(w.Bytes()), []byte("hello")})
	var args WriteArgs
	args.Parse(&r)
	if err := r.End(); err != nil || string(args.Data.Data) != "hello" || args.Data.Len != 5 {
		t.Errorf("%+v, %v", args, err)
	}

	var inline xdr.Writer
	(&ReadRes{Count: 5, EOF: true, Data: Inline([]byte("world"))}).Append(&inline)
	for placed, stream := range map[int][]byte{0: inline.Bytes(), 5: inline.Bytes()[:inline.Len()-8]} {
		data.CopyIn(0, []byte("WORLD"))
		r.Reset(stream, []mem.Vec{data})
		if placed > 0 {
			r.SetLayout(item{len(stream), nil})
		}
		res := ReadRes{Data: Marked(0)}
		res.Parse(&r)
		got := make([]byte, 5)
		data.CopyOut(0, got)
		want := map[int]string{0: "world", 5: "WORLD"}[placed]
		if err := r.End(); err != nil || res.Data.Len != 5 || string(got) != want {
			t.Errorf("placed %d: %+v, %q, %v", placed, res, got, err)
		}
	}
}

// item is the xdr.Layout of a message with one data item outside the stream, which would
// begin at an offset: data, or nil if it is in its payload.
type item struct {
	off  int
	data []byte
}

func (m item) Item(_, off, _ int) ([]byte, bool, error) { return m.data, off == m.off, nil }
func (m item) Before(int, int) int                      { return 0 }
func (m item) End() error                               { return nil }

func FuzzArgs(f *testing.F)    { fuzz(f, false) }
func FuzzResults(f *testing.F) { fuzz(f, true) }

// fuzz checks that what decodes encodes to a message of the same meaning.
func fuzz(f *testing.F, reply bool) {
	for _, c := range golden(f) {
		if c.key.reply == reply {
			f.Add(c.key.prog, c.key.vers, c.key.proc, c.body)
		}
	}
	for _, c := range written {
		if c.key.reply == reply {
			f.Add(c.key.prog, c.key.vers, c.key.proc, unhex(f, c.hex))
		}
	}
	f.Fuzz(func(t *testing.T, prog, vers, proc uint32, body []byte) {
		k := messageKey{prog, vers, proc, reply}
		if newMessage(k) == nil {
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
		if err != nil || !same(m, again) {
			t.Fatalf("%v: %+v became %+v, %v", k, m, again, err)
		}
	})
}
