package krb5

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/rdmafs/rdmafs/test/realm"
)

// scriptedKDC stands in a KDC's place, at one port of UDP and TCP. datagram and stream are
// each given a request; what datagram returns is sent, one datagram each, and what stream
// returns is all that a connection carries.
type scriptedKDC struct {
	addr              string
	datagrams         atomic.Int32
	streams           atomic.Int32
	datagram          func(request []byte) [][]byte
	stream            func(request []byte) []byte
	ln                net.Listener
	packets           net.PacketConn
	serving           sync.WaitGroup
	arrived, released chan struct{} // if not nil: of each connection
}

func (k *scriptedKDC) start(t testing.TB) *scriptedKDC {
	t.Helper()
	var err error
	for range 10 { // the port may be taken for UDP
		if k.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		k.addr = k.ln.Addr().String()
		if k.packets, err = net.ListenPacket("udp", k.addr); err == nil {
			break
		}
		_ = k.ln.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = k.ln.Close()
		_ = k.packets.Close()
		k.serving.Wait()
	})
	k.serving.Go(k.serveDatagrams)
	k.serving.Go(k.serveStreams)
	return k
}

func (k *scriptedKDC) serveDatagrams() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := k.packets.ReadFrom(buf)
		if err != nil {
			return
		}
		k.datagrams.Add(1)
		if k.datagram == nil {
			continue
		}
		for _, b := range k.datagram(bytes.Clone(buf[:n])) {
			_, _ = k.packets.WriteTo(b, from)
		}
	}
}

func (k *scriptedKDC) serveStreams() {
	for {
		c, err := k.ln.Accept()
		if err != nil {
			return
		}
		k.streams.Add(1)
		if k.arrived != nil {
			k.arrived <- struct{}{}
			_, _ = io.Copy(io.Discard, c) // until the client ends it
			close(k.released)
		} else if request, err := readFramed("", c); err == nil && k.stream != nil {
			_, _ = c.Write(k.stream(request))
		}
		_ = c.Close()
	}
}

// framed is msg as TCP carries it.
func framed(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)
}

// refusalOf is a KRB-ERROR.
func refusalOf(t testing.TB, code int32, data types.PADataSequence) []byte {
	t.Helper()
	e := messages.NewKRBError(types.NewPrincipalName(2, "krbtgt/"+realm.Name), realm.Name, code, "")
	if data != nil {
		var err error
		if e.EData, err = asn1.Marshal(data); err != nil {
			t.Fatal(err)
		}
	}
	b, err := e.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// onlyKDCs has a realm's KDCs be others.
func onlyKDCs(cf *Config, addrs ...string) { cf.Conf.Realms[0].KDC = addrs }

// TestExchangeGivenUp: who is killed while a KDC does not answer returns, its connection has
// ended, and the next is served.
func TestExchangeGivenUp(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	r.AddService(realm.Service)
	cache := r.Path("alice.cc")
	r.Kinit("alice", "secret", cache, time.Hour)
	k := (&scriptedKDC{arrived: make(chan struct{}), released: make(chan struct{})}).start(t)
	var c *Client
	var kdcs []string
	c = testClient(t, r, func(cf *Config) {
		cf.Environment = cache
		kdcs = cf.Conf.Realms[0].KDC
		onlyKDCs(cf, k.addr)
	})
	u := c.User(uint32(os.Geteuid()))
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, _, err := u.Start(ctx); ended <- err }()
	<-k.arrived
	kill()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("killed: %v", err)
	}
	<-k.released
	c.cf.Conf.Realms[0].KDC = kdcs
	if _, _, err := u.Start(t.Context()); err != nil {
		t.Errorf("after an exchange that was given up: %v", err)
	}
}

// confOf is a configuration with these KDCs of each realm.
func confOf(t testing.TB, kdcs map[string][]string, more string) *Conf {
	t.Helper()
	text := "[libdefaults]\n dns_lookup_kdc = false\n udp_preference_limit = 1\n" + more + "[realms]\n"
	for name, addrs := range kdcs {
		text += name + " = {\n"
		for _, a := range addrs {
			text += " kdc = " + a + "\n"
		}
		text += "}\n"
	}
	path := t.TempDir() + "/krb5.conf"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConf(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBadAnswers: what answers in a KDC's place sends what no KDC does. It is an error, and
// the next KDC is asked.
func TestBadAnswers(t *testing.T) {
	whole := refusalOf(t, errClientUnknown, nil)
	next := (&scriptedKDC{stream: func([]byte) []byte { return framed(whole) }}).start(t)
	for name, tc := range map[string]struct {
		sent []byte
		bad  bool
		want string
	}{
		"nothing":           {nil, false, "without an answer"},
		"half a length":     {[]byte{0, 0}, false, "without an answer"},
		"cut short":         {framed(whole)[:40], false, "after 36 bytes"},
		"no length":         {framed(nil), true, "0 bytes are announced"},
		"all memory":        {[]byte{0xff, 0xff, 0xff, 0xff}, true, "4294967295 bytes are announced"},
		"one byte too much": {binary.BigEndian.AppendUint32(nil, maxAnswer+1), true, "bytes are announced"},
		"no message":        {framed([]byte("hello")), true, "no message of a KDC"},
		"no length of DER":  {framed([]byte{tagASRep}), true, "its length"},
		"length too long":   {framed([]byte{tagASRep, 0x84, 0, 0, 0, 0}), true, "its length"},
		"longer than said":  {framed(append(bytes.Clone(whole), 0)), true, "its length"},
		"empty refusal":     {framed([]byte{tagKRBError, 0}), true, "malformed"},
		"too big for TCP":   {framed(refusalOf(t, errTooBig, nil)), true, "by TCP that TCP"},
		"unavailable":       {framed(refusalOf(t, errUnavailable, nil)), false, "SVC_UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			k := (&scriptedKDC{stream: func([]byte) []byte { return tc.sent }}).start(t)
			_, err := askOne(t.Context(), "tcp", k.addr, []byte("request"))
			var bad *BadAnswer
			if err == nil || !strings.Contains(err.Error(), tc.want) || errors.As(err, &bad) != tc.bad {
				t.Errorf("%v; want %q, a BadAnswer: %v", err, tc.want, tc.bad)
			}
			c := confOf(t, map[string][]string{"A.LAN": {k.addr, next.addr}}, "")
			if a, err := c.ask(t.Context(), "A.LAN", []byte("request")); err != nil || a.at != next.addr || a.refusal == nil {
				t.Errorf("the next KDC: %+v, %v", a, err)
			}
			if n := k.streams.Load(); n != 2 {
				t.Errorf("%d connections, want 2", n)
			}
		})
	}
}

// TestByDatagram: small requests go by UDP, past datagrams that are no answers, and by TCP
// where the answer is too long; large ones by TCP.
func TestByDatagram(t *testing.T) {
	good, big := refusalOf(t, errClientUnknown, nil), refusalOf(t, errTooBig, nil)
	for name, tc := range map[string]struct {
		request   int
		datagrams [][]byte
		udp, tcp  int32
		code      int32 // 0: no answer
	}{
		"an answer":       {100, [][]byte{good}, 1, 0, errClientUnknown},
		"behind strays":   {100, [][]byte{nil, []byte("x"), good[:30], {tagKRBError, 0}, good}, 1, 0, errClientUnknown},
		"strays alone":    {100, [][]byte{nil, nil, nil, nil, nil, nil, nil, nil, good}, 1, 1, errPreauth},
		"too big":         {100, [][]byte{big}, 1, 1, errPreauth},
		"a large request": {1466, nil, 0, 1, errPreauth},
		"an unavailable":  {100, [][]byte{refusalOf(t, errUnavailable, nil)}, 1, 1, errPreauth},
	} {
		t.Run(name, func(t *testing.T) {
			k := (&scriptedKDC{
				datagram: func([]byte) [][]byte { return tc.datagrams },
				stream:   func([]byte) []byte { return framed(refusalOf(t, errPreauth, nil)) },
			}).start(t)
			c := confOf(t, map[string][]string{"A.LAN": {k.addr}}, "")
			c.LibDefaults.UDPPreferenceLimit = 1465
			a, err := c.ask(t.Context(), "A.LAN", make([]byte, tc.request))
			if err != nil || a.refusal == nil || a.refusal.ErrorCode != tc.code {
				t.Errorf("%+v, %v; want error %d", a, err, tc.code)
			}
			if udp, tcp := k.datagrams.Load(), k.streams.Load(); udp != tc.udp || tcp != tc.tcp {
				t.Errorf("%d datagrams and %d connections; want %d and %d", udp, tcp, tc.udp, tc.tcp)
			}
		})
	}
}

// TestMITByDatagram gets tickets of MIT's KDC by UDP, with proof of the key, and is told of
// a key that is no longer the client's.
func TestMITByDatagram(t *testing.T) {
	r := realm.Start(t)
	r.AddService(realm.Service)
	machine := r.AddService("host/client.test.lan")
	kadmin(t, r.Env(), realm.Name, "modprinc +requires_preauth host/client.test.lan")
	c := testClient(t, r, func(cf *Config) { cf.Keytab = machine })
	to := c.cf.Conf.Realms[0].KDC[0]
	k := (&scriptedKDC{datagram: func(request []byte) [][]byte {
		conn, stop, err := dialKDC(t.Context(), "udp", to, streamTimeout)
		if err != nil {
			return nil
		}
		defer stop()
		b := make([]byte, maxDatagram)
		if _, err := conn.Write(request); err != nil {
			return nil
		}
		n, _ := conn.Read(b)
		return [][]byte{b[:n]}
	}}).start(t)
	c.cf.Conf.Realms[0].KDC, c.cf.Conf.LibDefaults.UDPPreferenceLimit = []string{k.addr}, 1465
	got, err := c.User(uint32(os.Geteuid())).Ticket(t.Context())
	if err != nil || got.Client != "host/client.test.lan@"+realm.Name {
		t.Errorf("%+v, %v", got, err)
	}
	if udp, tcp := k.datagrams.Load(), k.streams.Load(); udp != 3 || tcp != 0 {
		t.Errorf("%d datagrams and %d connections; want 3 datagrams", udp, tcp)
	}
	kadmin(t, r.Env(), realm.Name, "cpw -randkey host/client.test.lan")
	if _, err := c.User(uint32(os.Geteuid())).Ticket(t.Context()); err == nil || !strings.Contains(err.Error(), "make the keytab anew") {
		t.Errorf("with a key of before: %v", err)
	}
}

// FuzzAnswer: nothing that comes by a connection to a KDC makes a client panic, or believe it.
func FuzzAnswer(f *testing.F) {
	kt, who := testKeytab(f)
	conf := confOf(f, nil, "")
	for _, s := range [][]byte{framed(refusalOf(f, errPreauthNeeded, types.PADataSequence{{PADataType: patype.PA_ETYPE_INFO2, PADataValue: []byte{0x30, 0}}})),
		framed([]byte{tagASRep, 2, 0x30, 0}), framed([]byte{tagTGSRep, 2, 0x30, 0}), {0xff, 0xff, 0xff, 0xff}} {
		f.Add(s)
	}
	kdc := &forgedKDC{kt: kt}
	for _, msg := range [][]byte{kdc.reply(f, asRequest(f, conf, who)), kdc.reply(f, tgsRequest(f, conf, kdc.tgt(who)))} {
		f.Add(framed(msg))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		b, err := readFramed("", bytes.NewReader(sent))
		if err != nil {
			return
		}
		a, err := parseAnswer("", b)
		if err != nil {
			return
		}
		_ = guarded(func() error {
			l := &asExchange{conf: conf, kt: kt, who: who, req: *asRequest(t, conf, who)}
			if a.refusal != nil {
				return l.prove(a.refusal)
			}
			if _, err := l.accept(a, time.Now()); err == nil {
				t.Error("a login that answers no request of this client is accepted")
			}
			return nil
		})
		_ = guarded(func() error {
			if a.reply != nil {
				tgt := kdc.tgt(who)
				if _, err := acceptGrant(&tgsRequest(t, conf, tgt).ReqBody, tgt, a, time.Now()); err == nil {
					t.Error("a ticket that answers no request of this client is accepted")
				}
			}
			return nil
		})
	})
}
