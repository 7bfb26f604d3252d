package rpcbind

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// Socket is where Linux's rpcbind listens for this host's programs; over it alone
// it knows whose a registration is.
const Socket = "/run/rpcbind.sock"

// Conn is a connection to an rpcbind. It is used by one goroutine.
type Conn struct {
	conn net.Conn
	xid  uint32
}

// Do connects to an rpcbind, runs f and disconnects. at is the path of its socket, or
// its address. ctx bounds all of it.
func Do(ctx context.Context, at string, f func(*Conn) error) error {
	network := "tcp"
	if strings.HasPrefix(at, "/") {
		network = "unix"
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, at)
	if err != nil {
		return fmt.Errorf("rpcbind: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = f(&Conn{conn: conn})
	if stop() {
		return errors.Join(err, conn.Close())
	}
	return errors.Join(ctx.Err(), err)
}

// Set registers e, and reports whether rpcbind took it: not if the program has a
// registration of that version and netid.
func (c *Conn) Set(e wire.Rpcb) (bool, error) {
	var res wire.SetRes
	err := c.call(wire.RpcbindSet, &e, &res)
	return res.OK, err
}

// Unset removes the registration of e's program, version and netid, and reports whether
// rpcbind did.
func (c *Conn) Unset(e wire.Rpcb) (bool, error) {
	var res wire.SetRes
	err := c.call(wire.RpcbindUnset, &e, &res)
	return res.OK, err
}

// List is what is registered.
func (c *Conn) List() ([]wire.Rpcb, error) {
	var res wire.RpcbList
	err := c.call(wire.RpcbindDump, &wire.Void{}, &res)
	return res.List, err
}

// UniversalAddr is the universal address of a port (RFC 5665 section 5.2.3.3 and
// 5.2.3.4).
func UniversalAddr(at netip.AddrPort) string {
	return fmt.Sprintf("%s.%d.%d", at.Addr().Unmap().WithZone(""), at.Port()>>8, at.Port()&0xff)
}

const (
	lastFragment = 1 << 31
	// maxReply is more than the list of everything needs.
	maxReply = 1 << 20
)

func (c *Conn) call(proc uint32, args, res wire.Message) error {
	c.xid++
	call := &transport.Call{Prog: wire.RpcbindProgram, Vers: wire.RpcbindV4, Proc: proc, Args: args.Append,
		Result: func(r *xdr.Reader) error {
			res.Parse(r)
			return r.End()
		}}
	var w xdr.Writer
	w.Uint32(0)
	oncrpc.AppendCall(&w, c.xid, call)
	w.SetUint32(0, lastFragment|uint32(w.Len()-4))
	if _, err := c.conn.Write(w.Bytes()); err != nil {
		return fmt.Errorf("rpcbind: %w", err)
	}
	reply, err := readRecord(c.conn)
	if err != nil {
		return fmt.Errorf("rpcbind: %w", err)
	}
	var r xdr.Reader
	r.Reset(reply, nil)
	if err := oncrpc.DecodeReply(&r, c.xid, call); err != nil {
		return fmt.Errorf("rpcbind: %w", err)
	}
	return nil
}

// readRecord reads a record of any number of fragments.
func readRecord(from io.Reader) (record []byte, err error) {
	for {
		var mark [4]byte
		if _, err := io.ReadFull(from, mark[:]); err != nil {
			return nil, err
		}
		n := binary.BigEndian.Uint32(mark[:])
		size := int(n &^ lastFragment)
		if size > maxReply-len(record) || size == 0 && n&lastFragment == 0 {
			return nil, fmt.Errorf("%w: record mark %#x", transport.ErrProtocol, n)
		}
		at := len(record)
		record = append(record, make([]byte, size)...)
		if _, err := io.ReadFull(from, record[at:]); err != nil {
			return nil, err
		}
		if n&lastFragment != 0 {
			return record, nil
		}
	}
}
