package rpcrdma

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// linuxRefusal is how Linux 6.12 answered a call of version 2 with XID
// 4fe63cdc: its versions are 1 to 1, the header's is the caller's.
const linuxRefusal = "4fe63cdc000000020000004000000004000000010000000100000001"

func TestParseVersions(t *testing.T) {
	b, err := hex.DecodeString(linuxRefusal)
	if err != nil {
		t.Fatal(err)
	}
	const xid = 0x4fe63cdc
	if low, high, ok := parseVersions(b, xid); !ok || low != 1 || high != 1 {
		t.Errorf("%d to %d, %v", low, high, ok)
	}
	for n := range b {
		if _, _, ok := parseVersions(b[:n], xid); ok {
			t.Errorf("the first %d bytes are an answer", n)
		}
	}
	for name, bad := range map[string][]byte{
		"another call's": xdrWords(1, 1, 32, 4, 1, 1, 1),
		"no error":       xdrWords(xid, 1, 32, 0, 1, 1, 1),
		"ERR_CHUNK":      xdrWords(xid, 1, 32, 4, 2, 1, 1),
		"no range":       xdrWords(xid, 1, 32, 4, 1, 2, 1),
	} {
		if _, _, ok := parseVersions(bad, xid); ok {
			t.Errorf("%s is an answer", name)
		}
	}
}

// TestAskVersions asks peers that answer as Linux does, after something else,
// with nothing but noise, and not at all.
func TestAskVersions(t *testing.T) {
	refusal, err := hex.DecodeString(linuxRefusal)
	if err != nil {
		t.Fatal(err)
	}
	noise := xdrWords(1, 2, 3)
	for _, c := range []struct {
		name   string
		before int // messages of noise
		answer bool
		end    bool
		ok     bool
	}{
		{name: "answer", answer: true, ok: true},
		{name: "answer after noise", before: 3, answer: true, ok: true},
		{name: "noise", before: 4},
		{name: "hangs up", end: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := startPeer(t, nil, func(p *peer) error {
				got, err := p.wait(verbs.OpRecv)
				if err != nil {
					return err
				}
				ask := bytes.Clone(p.recvs[got.ID].Bytes()[:got.Len])
				if len(ask) != wire.EmptyLen1 || beUint32(ask[4:]) != noVersion {
					return fmt.Errorf("asked with %x", ask)
				}
				for range c.before {
					if err := p.send(noise); err != nil {
						return err
					}
				}
				if c.end {
					return p.conn.Close()
				}
				if !c.answer {
					return nil
				}
				return p.send(append(ask[:4:4], refusal[4:]...))
			})
			dev := iwarp.Open(iwarp.Config{})
			d := NewDialer(DialerConfig{Device: dev, Addr: addr})
			low, high, err := AskVersions(within(t, patience), d)
			if c.ok != (err == nil) || c.ok && (low != 1 || high != 1) {
				t.Errorf("%d to %d, %v", low, high, err)
			}
			if err := errors.Join(d.Close(), dev.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInfoOf(t *testing.T) {
	addr := startPeer(t, wire.PrivateData{SendSize: 2048, RecvSize: 8192}.Append(nil), answerAll(5))
	r := dialPeer(t, addr, nil)
	want := LinkInfo{Told: true, Peer: wire.PrivateData{SendSize: 2048, RecvSize: 8192}, SendInline: 4096, RecvInline: 2048, OfferInvalidate: true, Asked: 16, Granted: 1}
	if got, ok := InfoOf(r.link); !ok || got != want {
		t.Errorf("%+v, %v, want %+v", got, ok, want)
	}
	wantAlive(t, r)
	if got, _ := InfoOf(r.link); got.Granted != int(r.d.Stats().Credits) {
		t.Errorf("%d credits granted, counted are %d", got.Granted, r.d.Stats().Credits)
	}

	silent := dialPeer(t, startPeer(t, nil, answerAll(5)), nil)
	got, _ := InfoOf(silent.link)
	if got.Told || got.SendInline != wire.DefaultInline || got.RecvInline != wire.DefaultInline || got.Peer.RemoteInvalidate {
		t.Errorf("a peer without private data: %+v", got)
	}
	second := dialPeer(t, startPeer(t, nil, answerAll(5)), try2)
	wantAlive(t, second)
	if got, _ := InfoOf(second.link); got.SendInline != wire.DefaultInline2 || got.RecvInline != wire.DefaultInline2 {
		t.Errorf("version 2: %+v", got)
	}
	if _, ok := InfoOf(nil); ok {
		t.Error("no link is one of RPC-over-RDMA")
	}
}
