//go:build knfsd

package knfsd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// Probes that share no code with the project's clients: what they find is
// true of the guest, whatever the clients do.

const probeTimeout = time.Minute

// maxReply bounds a probe's reply record.
const maxReply = 64 << 10

func dial(g *Guest, s Service) (conn net.Conn, err error) {
	err = g.InNetNS(func() error {
		conn, err = net.DialTimeout("tcp", g.Addr(s).String(), probeTimeout)
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(probeTimeout))
}

func words(w ...uint32) []byte {
	var b []byte
	for _, x := range w {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return b
}

// xdrOpaque is variable-length opaque data (RFC 4506, section 4.10).
func xdrOpaque(b []byte) []byte {
	out := append(words(uint32(len(b))), b...)
	return append(out, make([]byte, -len(b)&3)...)
}

// call makes one RPC as root under AUTH_SYS in one record (RFC 5531, sections
// 9 and 11) and returns its results.
func call(conn io.ReadWriter, program, version, procedure uint32, args []byte) ([]byte, error) {
	const xid = 0x6b6e6673
	m := words(xid, 0, 2, program, version, procedure)
	m = append(m, words(1, 20, 0, 0, 0, 0, 0)...) // AUTH_SYS: no name, ids or groups
	m = append(m, words(0, 0)...)
	m = append(m, args...)
	if _, err := conn.Write(append(words(1<<31|uint32(len(m))), m...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:]) &^ (1 << 31)
	if n > maxReply {
		return nil, fmt.Errorf("reply of %d bytes", n)
	}
	r := make([]byte, n)
	if _, err := io.ReadFull(conn, r); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(r, words(xid, 1, 0, 0, 0, 0)) {
		return nil, fmt.Errorf("not accepted: % x", r)
	}
	return r[24:], nil
}

func callNull(conn io.ReadWriter, program, version uint32) error {
	_, err := call(conn, program, version, 0, nil)
	return err
}

func nullCall(g *Guest, s Service, program, version uint32) error {
	conn, err := dial(g, s)
	if err != nil {
		return err
	}
	defer conn.Close()
	return callNull(conn, program, version)
}

// take cuts variable-length opaque data from the front of *b.
func take(b *[]byte) ([]byte, error) {
	if len(*b) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	n := int(binary.BigEndian.Uint32(*b))
	if n > len(*b)-4 {
		return nil, io.ErrUnexpectedEOF
	}
	data := (*b)[4 : 4+n]
	*b = (*b)[min(len(*b), 4+n+(-n&3)):]
	return data, nil
}

// status cuts a result's status from the front of *b and demands success.
func status(b *[]byte) error {
	if len(*b) < 4 {
		return io.ErrUnexpectedEOF
	}
	s := binary.BigEndian.Uint32(*b)
	*b = (*b)[4:]
	if s != 0 {
		return fmt.Errorf("status %d", s)
	}
	return nil
}

// writeVerifier mounts /export, looks up the file "kept" and commits it: the
// reply ends with the verifier (RFC 1813, sections 3.3.3, 3.3.21, 5.2.1).
func writeVerifier(g *Guest) (verifier [8]byte, err error) {
	mountd, err := dial(g, Mountd)
	if err != nil {
		return verifier, err
	}
	defer mountd.Close()
	r, err := call(mountd, 100005, 3, 1, xdrOpaque([]byte("/export")))
	if err != nil {
		return verifier, fmt.Errorf("MNT: %w", err)
	}
	root, err := handle(r)
	if err != nil {
		return verifier, fmt.Errorf("MNT: %w", err)
	}
	nfs, err := dial(g, TCP)
	if err != nil {
		return verifier, err
	}
	defer nfs.Close()
	r, err = call(nfs, 100003, 3, 3, append(xdrOpaque(root), xdrOpaque([]byte("kept"))...))
	if err != nil {
		return verifier, fmt.Errorf("LOOKUP: %w", err)
	}
	file, err := handle(r)
	if err != nil {
		return verifier, fmt.Errorf("LOOKUP: %w", err)
	}
	r, err = call(nfs, 100003, 3, 21, append(xdrOpaque(file), words(0, 0, 0)...))
	if err != nil {
		return verifier, fmt.Errorf("COMMIT: %w", err)
	}
	if err := status(&r); err != nil {
		return verifier, fmt.Errorf("COMMIT: %w", err)
	}
	if len(r) < len(verifier) {
		return verifier, io.ErrUnexpectedEOF
	}
	copy(verifier[:], r[len(r)-len(verifier):])
	return verifier, nil
}

func handle(r []byte) ([]byte, error) {
	if err := status(&r); err != nil {
		return nil, err
	}
	return take(&r)
}

// mpaConnect asks for an enhanced iWARP connection and demands that the NFS
// server accepts it (RFC 5044, section 7.1; RFC 6581, section 6).
func mpaConnect(g *Guest) error {
	conn, err := dial(g, SIW)
	if err != nil {
		return err
	}
	defer conn.Close()
	request := []byte("MPA ID Req Frame")
	request = append(request, 0x10, 2, 0, 4) // enhanced, revision 2, 4 bytes of private data
	request = append(request, 0, 1, 0, 1)    // IRD and ORD of one
	if _, err := conn.Write(request); err != nil {
		return err
	}
	var reply [20]byte
	if _, err := io.ReadFull(conn, reply[:]); err != nil {
		return err
	}
	const reject = 0x20
	if !bytes.HasPrefix(reply[:], []byte("MPA ID Rep Frame")) || reply[16]&reject != 0 {
		return fmt.Errorf("MPA reply % x", reply)
	}
	return nil
}

// testHostService has the guest reach a listener of the host.
func testHostService(t *testing.T, g *Guest) {
	t.Helper()
	var l net.Listener
	err := g.InNetNS(func() (err error) {
		l, err = net.Listen("tcp", net.JoinHostPort(g.HostAddr().String(), "20049"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = io.WriteString(conn, "hello from the host\n")
			err = errors.Join(err, conn.Close())
		}
		served <- err
	}()
	out := check(t, g, "cat </dev/tcp/"+g.HostAddr().String()+"/20049")
	if out != "hello from the host\n" {
		t.Errorf("the guest received %q", out)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
