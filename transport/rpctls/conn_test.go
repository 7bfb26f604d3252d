package rpctls

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/certs"
)

// pair is both ends of an encrypted connection over a socket.
func pair(t *testing.T) (client, server *Conn) {
	t.Helper()
	ca := certs.NewCA(t, "authority")
	cert := ca.Issue(t, "server", certs.For("nfs.example"))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := make(chan error, 1)
	runServer := func() {
		conn, err := ln.Accept()
		if err == nil {
			s := Server{Files: Files{Cert: cert.Cert, Key: cert.Key}}
			var over net.Conn
			if over, _, err = s.Upgrade(t.Context(), conn); err == nil {
				server = over.(*Conn)
				msg := make([]byte, 4+nullBytes)
				if _, err = io.ReadFull(server, msg); err == nil {
					_, err = server.Write(appendStart(nil, be(msg[4:8]))) // confirms; the verifier does not matter
				}
			}
		}
		accepted <- err
	}
	go runServer()
	socket, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := Client{Host: "nfs.example", Program: 100003, Version: 3, Files: Files{CA: ca.Cert}}
	over, err := c.Upgrade(t.Context(), socket)
	if err := errors.Join(err, <-accepted); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = over.Close(), server.Close() })
	return over.(*Conn), server
}

// TestInterruptedWrites: writes that deadlines interrupt again and again, with the rest given in other pieces each time, and
// reads that are interrupted too, carry every byte once and in order.
func TestInterruptedWrites(t *testing.T) {
	client, server := pair(t)
	data := make([]byte, 12<<20)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(data)
	interrupts := make(chan struct{})
	stop := make(chan struct{})
	runInterrupts := func() {
		defer close(interrupts)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(300)) * time.Microsecond):
				_ = client.SetWriteDeadline(time.Unix(1, 0))
				_ = server.SetReadDeadline(time.Unix(1, 0))
			}
		}
	}
	go runInterrupts()
	type result struct {
		sum [32]byte
		n   int
		err error
	}
	read := make(chan result, 1)
	// total is known once a write was interrupted: data is sent again and again until then. The reader looks
	// at it whenever it is interrupted itself.
	var total atomic.Int64
	total.Store(math.MaxInt64)
	runReader := func() {
		h, buf, r := sha256.New(), make([]byte, 100_000), result{}
		for int64(r.n) < total.Load() && r.err == nil {
			n, err := server.Read(buf)
			_, _ = h.Write(buf[:n])
			r.n += n
			if errors.Is(err, os.ErrDeadlineExceeded) {
				_ = server.SetReadDeadline(time.Time{})
			} else {
				r.err = err
			}
		}
		h.Sum(r.sum[:0])
		read <- r
	}
	go runReader()
	interrupted, rounds, sent := 0, 1, sha256.New()
	for left := data; len(left) > 0 || client.Unsent() || interrupted == 0; {
		if len(left) == 0 && !client.Unsent() {
			_, _ = sent.Write(data)
			left, rounds = data, rounds+1
		}
		var bufs [][]byte
		rest := left
		for len(rest) > 0 && len(bufs) < 5 {
			n := min(len(rest), rand.IntN(200_000))
			bufs, rest = append(bufs, rest[:n]), rest[n:]
		}
		n, err := client.WriteBuffers(bufs)
		left = left[n:]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			interrupted++
			_ = client.SetWriteDeadline(time.Time{})
		} else if err != nil {
			t.Fatal(err)
		}
	}
	_, _ = sent.Write(data)
	total.Store(int64(rounds * len(data)))
	r := <-read
	close(stop)
	<-interrupts
	if want := rounds * len(data); r.err != nil || r.n != want || !bytes.Equal(r.sum[:], sent.Sum(nil)) {
		t.Errorf("%d bytes of %d came, %v", r.n, want, r.err)
	}
	t.Logf("%d writes were interrupted", interrupted)
}

// TestWriteTakes: a write that waits for a peer that does not read returns with the deadline, keeps what it has taken, and
// does not need the caller's memory any more.
func TestWriteTakes(t *testing.T) {
	client, server := pair(t)
	data := bytes.Repeat([]byte{7}, 32<<20)
	_ = client.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	n, err := client.Write(data)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == len(data) || !client.Unsent() {
		t.Fatalf("%d bytes, %v, unsent %v", n, err, client.Unsent())
	}
	for i := range data[:n] {
		data[i] = 9
	}
	_ = client.SetWriteDeadline(time.Time{})
	written := make(chan error, 1)
	runRest := func() {
		_, err := client.Write([]byte{8})
		written <- err
	}
	go runRest()
	got := make([]byte, n+1)
	if _, err := io.ReadFull(server, got); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if i := bytes.IndexFunc(got[:n], func(r rune) bool { return r != 7 }); i >= 0 || got[n] != 8 {
		t.Errorf("byte %d differs", i)
	}
}

// TestHeld: what a peer makes crypto/tls answer, with new keys say, is bounded while nothing is written.
func TestHeld(t *testing.T) {
	w := &wire{holds: true}
	answer := make([]byte, 27) // to a KeyUpdate
	for held := 0; held < 16<<20; held += len(answer) {
		if _, err := w.Write(answer); err != nil {
			if held < 2*batch || !errors.Is(err, errHeld) {
				t.Errorf("after %d bytes: %v", held, err)
			}
			return
		}
	}
	t.Errorf("%d bytes are held", len(w.out))
}

// TestCloses: a close tells the peer, does not wait for one that does not read, and ends what is under way.
func TestCloses(t *testing.T) {
	t.Run("told", func(t *testing.T) {
		client, server := pair(t)
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
	})
	t.Run("full", func(t *testing.T) {
		client, _ := pair(t)
		_ = client.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := client.Write(make([]byte, 32<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		_ = client.Close() // does not wait for what the server does not read
		if _, err := client.Write([]byte{1}); err == nil {
			t.Error("a write after Close")
		}
	})
	t.Run("under way", func(t *testing.T) {
		client, server := pair(t)
		ended := make(chan error, 2)
		go func() { _, err := client.Read(make([]byte, 1)); ended <- err }()
		go func() { _, err := client.Write(make([]byte, 64<<20)); ended <- err }()
		if _, err := io.ReadFull(server, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
		for range 2 {
			if err := <-ended; err == nil {
				t.Error("ended well")
			}
		}
	})
}

// TestGathers: into what records writes are cut: small pieces go together, and long ones are not copied.
func TestGathers(t *testing.T) {
	var c Conn
	long := make([]byte, 3*maxPlain)
	bufs, at := [][]byte{{1}, make([]byte, 100), {}, long, {2}}, 0
	var sizes []int
	for {
		var record []byte
		if record, bufs, at = c.record(bufs, at); len(record) == 0 {
			break
		}
		sizes = append(sizes, len(record))
	}
	total := 0
	for i, n := range sizes {
		total += n
		if n > maxPlain || i+1 < len(sizes) && n < maxPlain {
			t.Errorf("records of %v", sizes)
			break
		}
	}
	if total != 1+100+len(long)+1 {
		t.Errorf("%d bytes in %v", total, sizes)
	}
}

// TestTruncated: a stream that ends in the middle of a record of TLS is no end of the connection but a cut.
func TestTruncated(t *testing.T) {
	for cut := 1; cut < 60; cut += 7 {
		client, server := pair(t)
		socket := client.socket.(*net.TCPConn)
		if _, err := client.tls.Write([]byte("forty bytes of a record, and some more..")); err != nil {
			t.Fatal(err)
		}
		if _, err := socket.Write(client.wire.out[:cut]); err != nil {
			t.Fatal(err)
		}
		if err := socket.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := server.Read(make([]byte, 100)); n != 0 || err != io.ErrUnexpectedEOF {
			t.Errorf("after %d bytes: %d, %v", cut, n, err)
		}
	}
}

// TestServerSilence: a client that asks for TLS and says no more is let go with its context; what is no probe is handed on.
func TestServerSilence(t *testing.T) {
	cert := certs.SelfSigned(t, "server", certs.For("nfs.example"))
	s := Server{Files: Files{Cert: cert.Cert, Key: cert.Key}}
	for name, c := range map[string]struct {
		say   []byte
		ahead int // of what was read and is handed on; -1: cancelled
	}{
		"probe alone":  {appendNull(nil, 1, 100003, 3, flavorTLS), -1},
		"AUTH_NONE":    {appendNull(nil, 1, 100003, 3, flavorNone), 44},
		"longer call":  {append([]byte{0x80, 0, 0, 60}, make([]byte, 60)...), 4},
		"shorter call": {append([]byte{0x80, 0, 0, 8}, make([]byte, 8)...), 4},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			runClient := func() {
				_, _ = near.Write(c.say)
				if c.ahead < 0 {
					_, _ = io.ReadFull(near, make([]byte, 36))
					cancel()
				}
			}
			go runClient()
			over, ahead, err := s.Upgrade(ctx, far)
			_ = far.Close()
			if c.ahead < 0 {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			if err != nil || over != far || !bytes.Equal(ahead, c.say[:c.ahead]) {
				t.Errorf("%v, %x, %v", over, ahead, err)
			}
		})
	}
}
