package krb5

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/rdmafs/rdmafs/test/realm"
)

// inPlaceOfKDC has the connections to a realm's KDC go to serve, which is given the KDC's own
// address. It returns what changes a Client's configuration.
func inPlaceOfKDC(t *testing.T, serve func(c net.Conn, kdc string)) func(*Config) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		serving.Wait()
	})
	return func(cf *Config) {
		kdcs := cf.Conf.Realms[0].KDC
		cf.Conf.LibDefaults.UDPPreferenceLimit = 1 // TCP alone
		cf.Conf.Realms[0].KDC = []string{ln.Addr().String()}
		serving.Go(func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				serve(c, kdcs[0])
			}
		})
	}
}

// TestExchangeOutlivesCaller: who is killed while a KDC does not answer returns at once, and
// what it answers later is there for the next.
func TestExchangeOutlivesCaller(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddService(realm.Service)
	cache := r.Path("alice.cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	arrived, answer := make(chan struct{}), make(chan struct{})
	slow := inPlaceOfKDC(t, func(c net.Conn, kdc string) {
		defer c.Close()
		arrived <- struct{}{}
		<-answer
		to, err := net.Dial("tcp", kdc)
		if err != nil {
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(to, c) }()
		_, _ = io.Copy(c, to)
	})
	c := testClient(t, r, func(cf *Config) { cf.Environment = cache; slow(cf) })
	u := c.User(uint32(os.Geteuid()))
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, _, err := u.Start(ctx); ended <- err }()
	<-arrived
	kill()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("killed: %v", err)
	}
	u.Forget() // must not wait for the KDC, and forgets what comes next
	u.forgotten.Store(false)
	close(answer)
	c.Wait()
	r.StopKDC()
	if _, _, err := u.Start(t.Context()); err != nil {
		t.Errorf("the ticket is lost: %v", err)
	}
}

// TestMalformedAnswer: what gokrb5 takes for granted in the answer of a KDC, which anybody may
// have sent, may be absent.
func TestMalformedAnswer(t *testing.T) {
	r := realm.Start(t)
	machine := r.AddService("host/client.test.lan")
	data, err := asn1.Marshal(types.PADataSequence{{PADataType: patype.PA_ETYPE_INFO2, PADataValue: []byte{0x30, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	refusal := messages.NewKRBError(types.NewPrincipalName(2, "krbtgt/"+realm.Name), realm.Name, errorcode.KDC_ERR_PREAUTH_REQUIRED, "")
	refusal.EData = data
	msg, err := refusal.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	forged := inPlaceOfKDC(t, func(c net.Conn, _ string) {
		defer c.Close()
		var head [4]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:])))
		_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...))
	})
	u := testClient(t, r, func(cf *Config) { cf.Keytab = machine; forged(cf) }).User(uint32(os.Geteuid()))
	if _, _, err := u.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("%v; want an answer that is malformed", err)
	}
}

// TestOtherClient: a user who has become another one is not known as before while no KDC is
// there.
func TestOtherClient(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddUser("bob", "secret")
	r.AddService(realm.Service)
	cache := r.Path("cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	u := testClient(t, r, func(cf *Config) { cf.Environment = cache }).User(uint32(os.Geteuid()))
	if _, _, err := u.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Kinit("bob", "secret", cache, time.Hour)
	r.StopKDC()
	if got, err := u.obtain(t.Context()); err == nil {
		t.Errorf("known as %s with the tickets of bob", got.client)
	}
}
