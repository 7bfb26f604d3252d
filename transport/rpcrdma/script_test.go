package rpcrdma

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/rdmafs/rdmafs/test/must"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Header is a message of any type as scripted peers make and look at it. Product code has a type for each.
type Header struct {
	XID, Version, Credits uint32
	Proc                  wire.Proc
	Align, Threshold      uint32
	Lists                 wire.Lists
	Err                   wire.ErrCode
	Low, High             uint32
	V2
}

// V2 is what only version 2 has.
type V2 struct {
	Direction                wire.Direction
	InvHandle                uint32
	Fault                    wire.Fault
	OptType                  uint32
	OptInfo                  []byte
	Props                    wire.PropSet
	NoChange, Done, Rejected wire.PropSubset
}

// message is h as a message of its type.
func (h *Header) message() wire.Message {
	fixed := wire.Header{XID: h.XID, Version: h.Version, Credits: h.Credits, Proc: h.Proc}
	msg := wire.Msg{Header: fixed, Direction: h.Direction, InvHandle: h.InvHandle, Lists: h.Lists}
	switch h.Proc {
	case wire.ProcMsg, wire.ProcNoMsg:
		return &msg
	case wire.ProcMsgP:
		return &wire.MsgP{Msg: msg, Align: h.Align, Threshold: h.Threshold}
	case wire.ProcError:
		return &wire.Error{Header: fixed, Code: h.Err, Low: h.Low, High: h.High, Fault: h.Fault}
	case wire.ProcOptional:
		return &wire.Optional{Header: fixed, Direction: h.Direction, Type: h.OptType, Info: h.OptInfo}
	case wire.ProcConnProp:
		return &wire.ConnProp{Header: fixed, Props: h.Props, NoChange: h.NoChange}
	case wire.ProcReqProp:
		return &wire.ReqProp{Header: fixed, Props: h.Props}
	case wire.ProcResProp:
		return &wire.ResProp{Header: fixed, Done: h.Done, Rejected: h.Rejected, Props: h.Props}
	case wire.ProcUpdProp:
		return &wire.UpdProp{Header: fixed, Props: h.Props}
	}
	return &wire.Done{Header: fixed}
}

func (h *Header) Append(w *xdr.Writer) { h.message().Append(w) }

func encodeHeader(h *Header) []byte {
	var w xdr.Writer
	h.Append(&w)
	return w.Bytes()
}

// ParseHeader is wire.Parse into a Header.
func ParseHeader(b []byte, h *Header) (int, error) {
	*h = Header{}
	m, n, err := wire.Parse(b, AllVersions)
	if err != nil {
		if m != nil {
			h.fixed(m.Fixed())
		}
		return 0, err
	}
	*h = headerOf(m)
	return n, nil
}

func (h *Header) fixed(f *wire.Header) {
	h.XID, h.Version, h.Credits, h.Proc = f.XID, f.Version, f.Credits, f.Proc
}

func headerOf(m wire.Message) (h Header) {
	h.fixed(m.Fixed())
	msg := func(m *wire.Msg) { h.Direction, h.InvHandle, h.Lists = m.Direction, m.InvHandle, m.Lists }
	switch m := m.(type) {
	case *wire.Msg:
		msg(m)
	case *wire.MsgP:
		msg(&m.Msg)
		h.Align, h.Threshold = m.Align, m.Threshold
	case *wire.Error:
		h.Err, h.Low, h.High, h.Fault = m.Code, m.Low, m.High, m.Fault
		if h.Version == Version2 {
			h.Direction = wire.DirReply
		}
	case *wire.Optional:
		h.Direction, h.OptType, h.OptInfo = m.Direction, m.Type, m.Info
	case *wire.ConnProp:
		h.Props, h.NoChange = m.Props, m.NoChange
	case *wire.ReqProp:
		h.Props = m.Props
	case *wire.ResProp:
		h.Direction, h.Done, h.Rejected, h.Props = wire.DirReply, m.Done, m.Rejected, m.Props
	case *wire.UpdProp:
		h.Props = m.Props
	}
	return h
}

func propSet(add ...func(*wire.PropSet)) (s wire.PropSet) {
	for _, f := range add {
		f(&s)
	}
	return s
}

func prop(id wire.PropID, v uint32) func(*wire.PropSet) {
	return func(s *wire.PropSet) { s.AddUint32(id, v) }
}

func subset(places ...int) (s wire.PropSubset) {
	for _, n := range places {
		s.Set(n)
	}
	return s
}

func xdrWords(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// nextOf is p.next as a Header.
func nextOf(p *props) (h Header, ok bool) {
	m := p.next()
	if m == nil {
		return Header{}, false
	}
	return headerOf(m), true
}

// returnedLen is wire.Msg.ReturnedLen.
func returnedLen(h *Header) int {
	m := wire.Msg{Header: wire.Header{Version: h.Version}, Lists: h.Lists}
	return m.ReturnedLen()
}

// recorded are the headers in a file of package wire's, which is the given field of each line.
func recorded(t testing.TB, file string, field int) (hs [][]byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("wire", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		hs = append(hs, must.Hex(t, strings.Fields(line)[field]))
	}
	return hs
}

func chunkOf(lens ...uint32) wire.Chunk {
	c := wire.Chunk{}
	for i, n := range lens {
		c = append(c, wire.Segment{Handle: uint32(i), Length: n, Offset: uint64(i) << 32})
	}
	return c
}

// rseg is a read segment at a position.
func rseg(pos, n uint32) wire.ReadSegment {
	return wire.ReadSegment{Position: pos, Segment: wire.Segment{Handle: 7, Length: n, Offset: 0x1000}}
}

// untilTrue returns when cond, which a running goroutine is about to make true, is.
func untilTrue(t *testing.T, mu *sync.Mutex, cond func() bool) {
	t.Helper()
	for ctx := within(t, patience); ctx.Err() == nil; {
		mu.Lock()
		ok := cond()
		mu.Unlock()
		if ok {
			return
		}
		runtime.Gosched()
	}
	t.Fatal("it never happened")
}
