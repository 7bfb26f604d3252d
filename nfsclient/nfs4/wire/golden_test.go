package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/test/rpccapture"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// The golden compounds in testdata come from captures of the Linux client and server
// over siw and rxe. With the captures at hand
//
//	go test ./nfsclient/nfs4/wire -run TestCaptures -captures DIR [-update]
//
// checks every compound in them, and -update chooses the golden ones anew.
var (
	captureDir = flag.String("captures", "", "directory of "+strings.Join(captures, ".pcap, ")+".pcap")
	update     = flag.Bool("update", false, "rewrite testdata/golden.txt from the captures")
)

var captures = []string{"siw-nfsv4.2", "rxe-nfsv4.2", "rxe-nfsv4.2-longcall"}

const (
	goldenFile = "testdata/golden.txt"
	// Of each list of operations and length of call and reply one exchange is golden,
	// up to a number and a size.
	goldenPerKind = 4
	goldenMax     = 6 << 10
)

// exchange is the arguments and the results of a compound.
type exchange struct{ call, reply []byte }

// decode parses both.
func (x exchange) decode() (*Compound, error) {
	var c Compound
	if err := decodeArgs(&c, x.call); err != nil {
		return nil, fmt.Errorf("call: %w", err)
	}
	if err := decodeRes(&c, x.reply); err != nil {
		return nil, fmt.Errorf("reply to %v: %w", names(&c), err)
	}
	return &c, nil
}

func decodeArgs(c *Compound, b []byte) error {
	var r xdr.Reader
	r.Reset(b, nil)
	c.ParseArgs(&r)
	return r.End()
}

func decodeRes(c *Compound, b []byte) error {
	var r xdr.Reader
	r.Reset(b, nil)
	c.ParseRes(&r)
	return r.End()
}

// names is the names of the operations of a compound.
func names(c *Compound) string {
	var all []string
	for _, o := range c.Ops {
		all = append(all, o.Op().String())
	}
	return strings.Join(all, " ")
}

func encode(c *Compound) exchange {
	var w [2]xdr.Writer
	c.AppendArgs(&w[0])
	c.AppendRes(&w[1])
	return exchange{w[0].Bytes(), w[1].Bytes()}
}

// roundTrip decodes an exchange that encodes to the same bytes.
func roundTrip(x exchange) (*Compound, error) {
	c, err := x.decode()
	if err != nil {
		return nil, err
	}
	for _, o := range c.Ops {
		if u, unknown := o.(*Unknown); unknown {
			return nil, fmt.Errorf("unknown operation %d", u.Number)
		}
		if g, ok := o.(*GetAttr); ok && g.Attrs.Err != nil {
			return nil, g.Attrs.Err
		}
	}
	again := encode(c)
	if !bytes.Equal(again.call, x.call) {
		return nil, fmt.Errorf("call of %s encodes to\n%x instead of\n%x", names(c), again.call, x.call)
	}
	if !bytes.Equal(again.reply, x.reply) && !bytes.Equal(encode(widened(c)).reply, x.reply) {
		return nil, fmt.Errorf("reply to %s encodes to\n%x instead of\n%x", names(c), again.reply, x.reply)
	}
	return c, nil
}

// wideOpen is an OPEN that encodes an empty set of attributes as one word of zeros, as
// knfsd does. A Bitmap forgets such words, which mean nothing.
type wideOpen struct{ *Open }

func (o wideOpen) AppendRes(w *xdr.Writer, st Status) {
	if st != OK {
		return
	}
	o.Stateid.append(w)
	o.Change.append(w)
	w.Uint32(o.ResFlags)
	w.Uint32(1)
	w.Uint32(0)
	o.Delegation.append(w)
}

func widened(c *Compound) *Compound {
	wide := *c
	wide.Ops = slices.Clone(c.Ops)
	for i, op := range wide.Ops {
		if o, ok := op.(*Open); ok && o.AttrSet.Empty() {
			wide.Ops[i] = wideOpen{o}
		}
	}
	return &wide
}

// exchanges pairs the compounds of a capture.
func exchanges(all []rpccapture.RPC) (list []exchange) {
	for _, m := range all {
		if m.Prog == Program && m.Vers == Version && m.Proc == ProcCompound && m.Reply {
			list = append(list, exchange{all[m.Call].Body, m.Body})
		}
	}
	return list
}

func TestCaptures(t *testing.T) {
	if *captureDir == "" {
		t.Skip("no -captures given")
	}
	var out bytes.Buffer
	for _, name := range captures {
		all, err := rpccapture.Read(filepath.Join(*captureDir, name+".pcap"))
		if err != nil {
			t.Fatal(err)
		}
		list, kinds := exchanges(all), map[string]int{}
		var good []exchange
		for _, x := range list {
			c, err := roundTrip(x)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			kinds[names(c)]++
			good = append(good, x)
		}
		t.Logf("%s: %d compounds of %d kinds, among %d messages", name, len(list), len(kinds), len(all))
		if len(list) == 0 {
			t.Errorf("%s has no compounds", name)
		}
		fmt.Fprintf(&out, "# from %s: call and reply\n", name)
		choose(&out, good)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(goldenFile, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// choose writes one exchange of each kind and length.
func choose(out *bytes.Buffer, all []exchange) {
	type shape struct {
		kind        string
		call, reply int
	}
	taken, seen := map[string]int{}, map[shape]bool{}
	for _, x := range all {
		x = x.shorten()
		c, err := x.decode()
		if err != nil {
			panic(err)
		}
		s := shape{names(c), len(x.call), len(x.reply)}
		if seen[s] || len(x.call)+len(x.reply) > goldenMax || taken[s.kind] >= goldenPerKind {
			continue
		}
		seen[s] = true
		taken[s.kind]++
		fmt.Fprintf(out, "%x %x\n", x.call, x.reply)
	}
}

// shorten cuts the data of READ and WRITE to 61 bytes: the captures have much of 1 MiB.
// What stays are the bytes captured, but for the length.
func (x exchange) shorten() exchange {
	c, err := x.decode()
	if err != nil {
		panic(err)
	}
	for _, o := range c.Ops {
		switch o := o.(type) {
		case *Read:
			x.reply = cut(x.reply, o.Data.Data)
		case *Write:
			x.call = cut(x.call, o.Data.Data)
		}
	}
	return x
}

func cut(msg, data []byte) []byte {
	const n = 61
	if len(data) <= n {
		return msg
	}
	item := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	at := bytes.Index(msg, item)
	short := append(binary.BigEndian.AppendUint32(nil, n), data[:n]...)
	short = append(short, 0, 0, 0)
	end := at + len(item) + xdr.Pad(len(item))
	return append(append(bytes.Clone(msg[:at]), short...), msg[end:]...)
}

// golden reads the golden exchanges.
func golden(tb testing.TB) (all []exchange) {
	tb.Helper()
	f, err := os.Open(goldenFile)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			tb.Error(err)
		}
	}()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 4*goldenMax)
	for sc.Scan() {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		call, reply, _ := strings.Cut(sc.Text(), " ")
		var x exchange
		if x.call, err = hex.DecodeString(call); err != nil {
			tb.Fatal(err)
		}
		if x.reply, err = hex.DecodeString(reply); err != nil {
			tb.Fatal(err)
		}
		all = append(all, x)
	}
	if sc.Err() != nil {
		tb.Fatal(sc.Err())
	}
	return all
}

func TestGolden(t *testing.T) {
	have := map[Op]bool{}
	for _, x := range golden(t) {
		c, err := roundTrip(x)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, o := range c.Ops {
			if st, answered := c.Outcome(i); answered && st == OK {
				have[o.Op()] = true
			}
		}
		if n := len(x.reply); n > c.ReplyMax()+bulk(c) {
			t.Errorf("reply to %s has %d bytes, ReplyMax is %d", names(c), n, c.ReplyMax())
		}
	}
	// What the captures are known to hold.
	for _, o := range []Op{OpExchangeID, OpCreateSession, OpSequence, OpReclaimComplete, OpDestroySession, OpDestroyClientID,
		OpSecInfoNoName, OpPutRootFH, OpPutFH, OpGetFH, OpGetAttr, OpSetAttr, OpAccess, OpLookup, OpReadDir, OpOpen, OpClose,
		OpRead, OpWrite, OpCommit, OpRemove, OpRename, OpLink, OpCreate, OpReadLink, OpSaveFH, OpRestoreFH, OpLock, OpLockU, OpFreeStateID,
		OpDelegReturn, OpAllocate, OpDeallocate, OpCopy, OpSetXattr, OpListXattrs} {
		if !have[o] {
			t.Errorf("no golden exchange with %v", o)
		}
	}
}

// bulk is how many bytes of a compound's results are data.
func bulk(c *Compound) (n int) {
	for _, o := range c.Ops[:c.Done] {
		n += bulkIn(o)
	}
	return n
}

// Every part of a message that ends early is refused, and so is one that goes on.
func TestGoldenTruncations(t *testing.T) {
	for _, x := range golden(t) {
		truncations(t, x)
	}
}

func truncations(t *testing.T, x exchange) {
	t.Helper()
	var c Compound
	for n := range x.call {
		if err := decodeArgs(&c, x.call[:n]); err == nil {
			t.Errorf("first %d of %d bytes of a call accepted: %x", n, len(x.call), x.call)
		}
	}
	if err := decodeArgs(&c, append(bytes.Clone(x.call), 0, 0, 0, 0)); err == nil {
		t.Errorf("word behind a call accepted: %x", x.call)
	}
	if err := decodeArgs(&c, x.call); err != nil {
		t.Error(err)
		return
	}
	for n := range x.reply {
		if err := decodeRes(&c, x.reply[:n]); err == nil {
			t.Errorf("%s: first %d of %d bytes of a reply accepted", names(&c), n, len(x.reply))
		}
	}
	if err := decodeRes(&c, append(bytes.Clone(x.reply), 0, 0, 0, 0)); err == nil {
		t.Errorf("%s: word behind a reply accepted", names(&c))
	}
}

// Some golden exchanges must also mean the right thing: what tshark says of them is
// repeated here.
func TestGoldenMeaning(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range golden(t) {
		c, err := x.decode()
		if err != nil {
			t.Fatal(err)
		}
		for i, op := range c.Ops {
			if _, answered := c.Outcome(i); !answered {
				continue
			}
			switch o := op.(type) {
			case *ExchangeID:
				seen["EXCHANGE_ID"] = string(o.Owner) == "Linux NFSv4.2 client" && o.Flags == ExchangeSuppMovedRefer|ExchangeBindPrincStateid && o.ClientID != 0
			case *Read:
				seen["READ"] = o.Count == 1<<20 && o.EOF && o.Data.Len == 61
			case *Write:
				seen["WRITE"] = seen["WRITE"] || o.Count == 6 && o.Stable == nfsclient.FileSync && string(o.Data.Data) == "small\n"
			case *Rename:
				seen["RENAME"] = o.From == "c.4.2" && o.To == "r.4.2" && o.FromDir == o.ToDir && o.FromDir.Before+2 == o.FromDir.After
			case *Lock:
				seen["LOCK in grace"] = seen["LOCK in grace"] || c.Status == ErrGrace && o.Type == WriteLockWait && o.Length == ToEnd && o.New
				seen["LOCK"] = seen["LOCK"] || c.Status == OK && o.Stateid.Seqid == 1
			case *Create:
				seen["symlink"] = seen["symlink"] || o.Type == nfsclient.SymbolicLink && o.Target.Len > 1000
				seen["mkdir"] = seen["mkdir"] || o.Type == nfsclient.Directory && o.Name == "dir.4.2" && o.Attrs.Has(AttrModeUmask)
			case *Open:
				seen["OPEN"] = seen["OPEN"] || o.Create && o.Mode == Unchecked && o.Name == "w1.4.2" && o.ResFlags == OpenLocktypePosix|OpenMayNotifyLock
				seen["delegation"] = seen["delegation"] || o.Delegation.Type == DelegRead && o.Stateid.Other != o.Delegation.Stateid.Other
			case *GetAttr:
				if c.Status != OK {
					continue
				}
				if a := &o.Attrs; a.Has(AttrTimeModify) && a.TimeModify.Nsec >= 1e9 || a.Has(AttrNumLinks) && a.NumLinks == 0 || a.Has(AttrLeaseTime) && a.LeaseTime == 0 {
					t.Errorf("GETATTR: %+v", a)
				}
				seen["owner"] = seen["owner"] || o.Attrs.Owner == "1000" && o.Attrs.OwnerGroup == "1000"
			}
		}
	}
	for _, what := range []string{"EXCHANGE_ID", "READ", "WRITE", "RENAME", "LOCK in grace", "LOCK", "symlink", "mkdir", "OPEN", "delegation", "owner"} {
		if !seen[what] {
			t.Errorf("no golden %s that says what tshark reads", what)
		}
	}
}
