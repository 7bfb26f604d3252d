package wire

import (
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// wide is by how much a Bitmap can be larger when it comes than when it is encoded.
const wide = 4 * (MaxBitmap - BitmapWords)

// The reply bounds are reached by the largest results that can be decoded, for what was asked.
func TestReplyMaxIsReached(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	full := Bitmap{1<<32 - 1, 1<<32 - 1, 1<<32 - 1}
	impl := ImplID{true, text(MaxOpaque), text(MaxOpaque), Time{}}
	channel := Channel{HasIRD: true}
	denied := Denied{Type: WriteLock, Owner: Owner{Owner: text(MaxOpaque)}}
	var flavors []Flavor
	for range MaxFlavors {
		flavors = append(flavors, Flavor{Flavor: RPCSecGSS, OID: text(MaxOID)})
	}
	largest := allAttrs
	largest.Filehandle, largest.Owner, largest.OwnerGroup = nfsclient.Handle(text(MaxHandle)), text(MaxOwner), text(MaxOwner)
	largest.TimeAccessSet.How, largest.TimeModifySet.How = nfsclient.TimeClient, nfsclient.TimeClient
	largest.FSLayoutTypes = make([]uint32, MaxLayoutTypes)
	largest.SupportedAttrs, largest.SuppAttrExclCreate = full, full
	largest.FSLocations = &FSLocations{}
	for range (MaxFSLocations - 8) / 8 {
		largest.FSLocations.Locations = append(largest.FSLocations.Locations, FSLocation{})
	}
	largest.ACL = make([]ACE, (MaxACL-4)/sizeLeastACE)
	largest.ACL[0].Who = text((MaxACL - 4) % sizeLeastACE)
	named := func(n int) *ListXattrs { // names of one letter take 8 bytes each
		o := &ListXattrs{MaxCount: uint32(8 + 4 + 8*n + 4 - listXattrsSlack)}
		for range n {
			o.Names = append(o.Names, "x")
		}
		return o
	}
	reached := map[Op]bool{}
	for _, c := range []struct {
		o     Operation
		st    Status
		short int // what the largest results lack
	}{
		{&Sequence{}, OK, 0},
		{&ExchangeID{ResProtect: Protect{ProtectMachCred, full, full}, ServerMajor: text(MaxOpaque), ServerScope: text(MaxOpaque), ServerImpl: impl}, OK, 2 * wide},
		{&CreateSession{ResFore: channel, ResBack: channel}, OK, 0},
		{&DestroySession{}, OK, 0}, {&DestroyClientID{}, OK, 0}, {&ReclaimComplete{}, OK, 0},
		{&BindConnToSession{ResDir: BoundBoth}, OK, 0},
		{&PutFH{}, OK, 0}, {&PutRootFH{}, OK, 0}, {&SaveFH{}, OK, 0}, {&RestoreFH{}, OK, 0}, {&Lookup{}, OK, 0}, {&LookupP{}, OK, 0},
		{&GetFH{Handle: nfsclient.Handle(text(MaxHandle))}, OK, 0},
		{&GetAttr{Want: largest.Mask, Attrs: largest}, OK, 3 * wide},
		{&SetAttr{Done: full}, OK, wide}, {&SetAttr{Done: full}, ErrGrace, wide},
		{&Verify{}, OK, 0}, {&NVerify{}, OK, 0}, {&Access{}, OK, 0}, {&ReadLink{}, OK, 0}, {&Read{}, OK, 0}, {&Write{}, OK, 0}, {&Commit{}, OK, 0},
		{&Open{AttrSet: full, Delegation: Delegation{Type: DelegWrite, LimitBy: LimitSize, ACE: ACE{Who: text(MaxOwner)}}}, OK, wide},
		{&OpenDowngrade{}, OK, 0}, {&Close{}, OK, 0}, {&DelegReturn{}, OK, 0},
		{&Lock{Denied: denied}, ErrDenied, 0}, {&LockT{Denied: denied}, ErrDenied, 0}, {&LockU{}, OK, 0},
		{&Create{AttrSet: full}, OK, wide}, {&Remove{}, OK, 0}, {&Rename{}, OK, 0}, {&Link{}, OK, 0},
		{&ReadDir{MaxCount: sizeVerf + 8 - readDirSlack}, OK, 0},
		{&ReadDir{MaxCount: 44 - readDirSlack, Entries: []Entry{{Name: "abcd"}}}, OK, 0},
		{&TestStateID{Stateids: make([]Stateid, 5), Statuses: make([]Status, 5)}, OK, 0}, {&FreeStateID{}, OK, 0},
		{&SecInfo{flavorsRes: flavorsRes{flavors}}, OK, 0}, {&SecInfoNoName{flavorsRes: flavorsRes{flavors}}, OK, 0},
		{&Seek{}, OK, 0}, {&Allocate{}, OK, 0}, {&Deallocate{}, OK, 0}, {&Clone{}, OK, 0}, {&OffloadCancel{}, OK, 0},
		{&Copy{HasCallback: true}, OK, 0}, {&OffloadStatus{Complete: true}, OK, 0},
		{&GetXattr{Value: make([]byte, MaxXattr)}, OK, 0}, {&GetXattr{Limit: 5, Value: make([]byte, 5)}, OK, 0},
		{&SetXattr{}, OK, 0}, {&RemoveXattr{}, OK, 0}, {named(9), OK, 0},
	} {
		q := Compound{Tag: "abc", Minor: 2, Ops: []Operation{c.o}, Status: c.st, Done: 1}
		x := encode(&q)
		if err := decodeRes(&q, x.reply); err != nil {
			t.Errorf("largest results of %v: %v", c.o.Op(), err)
			continue
		}
		if n := len(x.reply) + c.short; n != q.ReplyMax() {
			t.Errorf("%v: largest results have %d bytes, bound is %d", c.o.Op(), n, q.ReplyMax())
		}
		reached[c.o.Op()] = true
	}
	for n, k := range operations {
		if k.make != nil && !reached[Op(n)] {
			t.Errorf("no largest results of %s", k.name)
		}
	}
}

// Each attribute is as large as its entry in attrSizes says, at most.
func TestAttrSizes(t *testing.T) {
	if n := attrsMax(allAttrs.Mask); n > maxAttrs {
		t.Errorf("all attributes have %d bytes, a list is refused above %d", n, maxAttrs)
	}
	for n, size := range attrSizes {
		a := allAttrs
		a.Mask = BitmapOf(AttrNum(n))
		var w xdr.Writer
		if has := a.appendOne(&w, AttrNum(n)); has != (size > 0) {
			t.Errorf("attribute %d: encoded %v, size %d", n, has, size)
		}
		if w.Len() > size {
			t.Errorf("attribute %d: %d bytes, bound is %d", n, w.Len(), size)
		}
		var r xdr.Reader
		r.Reset(w.Bytes(), nil)
		var b Attrs
		if has := b.parseOne(&r, AttrNum(n)); has != (size > 0) || r.End() != nil {
			t.Errorf("attribute %d: decoded %v, %v", n, has, r.Err())
		}
	}
}
