package wire

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// all is the golden exchanges and those of the samples.
func all(tb testing.TB) []exchange {
	list := golden(tb)
	for _, s := range samples() {
		list = append(list, encode(&s.Compound))
	}
	return list
}

func FuzzCall(f *testing.F) {
	for _, x := range all(f) {
		f.Add(x.call)
	}
	f.Fuzz(func(t *testing.T, call []byte) {
		var c Compound
		if decodeArgs(&c, call) != nil || spoilt(&c) {
			return
		}
		once := encode(&c).call
		var again Compound
		if err := decodeArgs(&again, once); err != nil {
			t.Fatalf("%x became %x: %v", call, once, err)
		}
		if twice := encode(&again).call; !bytes.Equal(once, twice) {
			t.Fatalf("%x became %x, then %x", call, once, twice)
		}
	})
}

func FuzzReply(f *testing.F) {
	for _, x := range all(f) {
		f.Add(x.call, x.reply)
	}
	f.Fuzz(func(t *testing.T, call, reply []byte) {
		var c Compound
		if decodeArgs(&c, call) != nil || spoilt(&c) {
			return
		}
		if err := decodeRes(&c, reply); err != nil {
			return
		}
		if size, limit := len(reply)-bulk(&c), c.ReplyMax(); size > limit {
			t.Fatalf("%s: reply of %d bytes accepted, ReplyMax is %d", names(&c), size, limit)
		}
		if spoilt(&c) {
			return
		}
		once := encode(&c).reply
		if err := decodeRes(&c, once); err != nil {
			t.Fatalf("%x became %x: %v", reply, once, err)
		}
		if twice := encode(&c).reply; !bytes.Equal(once, twice) {
			t.Fatalf("%x became %x, then %x", reply, once, twice)
		}
	})
}

// spoilt reports whether a compound has what cannot be encoded as it came: an unknown
// operation, or attributes that were given up.
func spoilt(c *Compound) bool {
	for _, op := range c.Ops {
		switch o := op.(type) {
		case *Unknown:
			return true
		case *GetAttr:
			if o.Attrs.Err != nil {
				return true
			}
		case *SetAttr:
			if o.Attrs.Err != nil {
				return true
			}
		case *Create:
			if o.Attrs.Err != nil {
				return true
			}
		case *Open:
			if o.Attrs.Err != nil {
				return true
			}
		case *ReadDir:
			for i := range o.Entries {
				if o.Entries[i].Attrs.Err != nil {
					return true
				}
			}
		}
	}
	return false
}

// Whatever number stands in a word of a message, decoding it allocates no more than a
// small multiple of the message, as the memory of all counts is bounded by what is there.
func TestHostileWords(t *testing.T) {
	const perMessage = 256 << 10 // the largest array made by a count is far smaller
	var before, after runtime.MemStats
	for _, x := range all(t) {
		for _, v := range []uint32{1<<32 - 1, 1 << 31, 1 << 20, 1025, 129, 2, 0} {
			runtime.ReadMemStats(&before)
			n := 0
			for at := 0; at+4 <= len(x.call); at += 4 {
				b := bytes.Clone(x.call)
				binary.BigEndian.PutUint32(b[at:], v)
				var c Compound
				_ = decodeArgs(&c, b)
				n++
			}
			var c Compound
			if err := decodeArgs(&c, x.call); err != nil {
				t.Fatal(err)
			}
			for at := 0; at+4 <= len(x.reply); at += 4 {
				b := bytes.Clone(x.reply)
				binary.BigEndian.PutUint32(b[at:], v)
				_ = decodeRes(&c, b)
				n++
			}
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > uint64(n)*perMessage {
				t.Errorf("%s with words of %#x: %d messages took %d bytes", names(&c), v, n, got)
			}
		}
	}
}

func TestRejects(t *testing.T) {
	fh := func(ops ...Operation) []Operation { return append([]Operation{&PutRootFH{}}, ops...) }
	reply := func(words ...uint32) (b []byte) {
		for _, v := range words {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	for name, c := range map[string]struct {
		ops   []Operation
		reply []byte
	}{
		"result of another operation":        {fh(), reply(0, 0, 1, uint32(OpSaveFH), 0)},
		"more results than operations":       {fh(), reply(0, 0, 2, uint32(OpPutRootFH), 0, uint32(OpSaveFH), 0)},
		"fewer results and success":          {fh(&SaveFH{}), reply(0, 0, 1, uint32(OpPutRootFH), 0)},
		"no results and success":             {fh(), reply(0, 0, 0)},
		"failure in front of others":         {fh(&SaveFH{}), reply(70, 0, 2, uint32(OpPutRootFH), 70, uint32(OpSaveFH), 70)},
		"success at the end of a failure":    {fh(), reply(70, 0, 1, uint32(OpPutRootFH), 0)},
		"failure at the end of a success":    {fh(), reply(0, 0, 1, uint32(OpPutRootFH), 70)},
		"illegal operation with success":     {fh(), reply(0, 0, 1, uint32(OpIllegal), 0)},
		"tag that was not asked":             {fh(), reply(0, 4, 0x61626364, 1, uint32(OpPutRootFH), 0)},
		"more data than asked for":           {[]Operation{&Read{Count: 4}}, reply(0, 0, 1, uint32(OpRead), 0, 1, 5, 1, 2)},
		"boolean that is none":               {[]Operation{&Read{Count: 4}}, reply(0, 0, 1, uint32(OpRead), 0, 2, 0)},
		"stability that is none":             {[]Operation{&Write{}}, reply(0, 0, 1, uint32(OpWrite), 0, 1, 3, 0, 0)},
		"attributes longer than their list":  {[]Operation{&GetAttr{Want: BitmapOf(AttrSize)}}, reply(0, 0, 1, uint32(OpGetAttr), 0, 1, 1<<AttrSize, 4, 1, 2)},
		"attributes shorter than their list": {[]Operation{&GetAttr{Want: BitmapOf(AttrSize)}}, reply(0, 0, 1, uint32(OpGetAttr), 0, 1, 1<<AttrSize, 12, 1, 2, 3)},
		"file type that is none":             {[]Operation{&GetAttr{Want: BitmapOf(AttrType)}}, reply(0, 0, 1, uint32(OpGetAttr), 0, 1, 1<<AttrType, 4, 10)},
		"bitmap that is too long":            {[]Operation{&SetAttr{}}, reply(0, 0, 1, uint32(OpSetAttr), 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0)},
		"handle that is too long":            {[]Operation{&GetFH{}}, append(reply(0, 0, 1, uint32(OpGetFH), 0, 129), make([]byte, 132)...)},
		"listing larger than asked for":      {[]Operation{&ReadDir{MaxCount: 8}}, reply(0, 0, 1, uint32(OpReadDir), 0, 0, 0, 1, 0, 3, 1, 0x61000000, 0, 0, 0, 0)},
		"status of a stateid missing":        {[]Operation{&TestStateID{Stateids: make([]Stateid, 2)}}, reply(0, 0, 1, uint32(OpTestStateID), 0, 1, 0)},
		"value longer than the limit":        {[]Operation{&GetXattr{Limit: 4}}, reply(0, 0, 1, uint32(OpGetXattr), 0, 8, 1, 2)},
		"delegation of an unknown type":      {[]Operation{&Open{}}, append(reply(0, 0, 1, uint32(OpOpen), 0), append(make([]byte, 16+20+4+4), 0, 0, 0, 4)...)},
	} {
		q := Compound{Minor: 2, Ops: c.ops}
		if err := decodeRes(&q, c.reply); err == nil {
			t.Errorf("%s is accepted: %x", name, c.reply)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// An attribute that is not known spoils its own list only.
func TestUnknownAttributes(t *testing.T) {
	for name, mask := range map[string][]uint32{
		"in the first words": {1<<AttrSize | 1<<31, 1<<31 | 1},
		"above them":         {1<<AttrSize | 1<<31, 0, 0, 1},
	} {
		var w xdr.Writer
		for _, v := range []uint32{0, 0, 2, uint32(OpGetAttr), 0, uint32(len(mask))} {
			w.Uint32(v)
		}
		for _, v := range mask {
			w.Uint32(v)
		}
		w.Uint32(8 + 8 + 4)
		w.Uint64(1234)
		w.Uint64(5678)
		w.Uint32(99)
		w.Uint32(uint32(OpGetFH))
		w.Uint32(0)
		w.String("handle")
		g, fh := &GetAttr{Want: allAttrs.Mask}, &GetFH{}
		c := Compound{Minor: 2, Ops: []Operation{g, fh}}
		if err := decodeRes(&c, w.Bytes()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if g.Attrs.Err == nil || g.Attrs.Mask != BitmapOf(AttrSize, AttrMaxWrite) || g.Attrs.Size != 1234 || g.Attrs.MaxWrite != 5678 || fh.Handle != "handle" {
			t.Errorf("%s: %v, %x, size %d, handle %q", name, g.Attrs.Err, g.Attrs.Mask, g.Attrs.Size, fh.Handle)
		}
	}
}

// A server reads what it can of a request with an operation that it does not know.
func TestUnknownOperations(t *testing.T) {
	for _, test := range []struct {
		op      Op
		minor   uint32
		defined bool
	}{{49, 1, true}, {76, 2, false}, {2, 2, false}, {10044, 1, false}, {OpSeek, 1, false}} {
		var w xdr.Writer
		w.String("")
		for _, v := range []uint32{test.minor, 4, uint32(OpPutRootFH), uint32(test.op), 1, 2, 3, 4, 5, 6, 7} {
			w.Uint32(v)
		}
		var c Compound
		if err := decodeArgs(&c, w.Bytes()); err != nil {
			t.Fatal(err)
		}
		u, ok := c.Ops[len(c.Ops)-1].(*Unknown)
		if len(c.Ops) != 2 || !ok || u.Number != test.op || u.Defined(test.minor) != test.defined {
			t.Errorf("operation %d of minor %d became %+v", test.op, test.minor, c.Ops)
		}
	}
	if o, ok := New(OpSeek, 2).(*Seek); !ok {
		t.Errorf("SEEK of minor version 2 is %+v", o)
	}
	var w xdr.Writer
	w.String("tag")
	for _, v := range []uint32{3, 1, 77, 1} {
		w.Uint32(v)
	}
	var c Compound
	if err := decodeArgs(&c, w.Bytes()); err != nil || c.Minor != 3 || len(c.Ops) != 0 {
		t.Errorf("minor version 3: %+v, %v", c, err)
	}
}
