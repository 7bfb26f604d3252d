package krb5

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/test/realm"
	"github.com/rdmafs/rdmafs/test/realm/gsspeer"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// exchange holds t, one end of a context, to MIT's other end: both tokens both ways, of
// messages of many lengths, and none that was altered.
func exchange(t *testing.T, own rpcsecgss.Tokens, p *gsspeer.Peer) {
	t.Helper()
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33, 100, 4096, 1 << 20} {
		msg := make([]byte, n)
		rand.Read(msg)
		mic := own.AppendMIC(nil, msg)
		if len(mic) != own.MICLen() {
			t.Fatalf("%d bytes: MIC of %d, want %d", n, len(mic), own.MICLen())
		}
		if err := p.Verify(msg, mic); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		sealed := own.AppendWrap(nil, msg)
		if len(sealed) != n+own.WrapOverhead() {
			t.Fatalf("%d bytes: sealed in %d, want %d", n, len(sealed), n+own.WrapOverhead())
		}
		got, err := p.Unwrap(sealed)
		if err != nil || !bytes.Equal(got, msg) {
			t.Fatalf("%d bytes: unsealed %d, %v", n, len(got), err)
		}
		if mic, err = p.MIC(msg); err != nil {
			t.Fatal(err)
		}
		if err := own.VerifyMIC(msg, mic); err != nil {
			t.Fatalf("%d bytes: MIC of MIT: %v", n, err)
		}
		if err := own.VerifyMIC(append(bytes.Clone(msg), 0), mic); !errors.Is(err, ErrToken) {
			t.Fatalf("%d bytes: MIC of MIT for a longer message: %v", n, err)
		}
		if sealed, err = p.Wrap(msg); err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(sealed)
		bad[len(bad)/2] ^= 1
		if _, err := own.Unwrap(bad); !errors.Is(err, ErrToken) {
			t.Fatalf("%d bytes: altered token of MIT: %v", n, err)
		}
		if got, err := own.Unwrap(sealed); err != nil || !bytes.Equal(got, msg) {
			t.Fatalf("%d bytes: token of MIT: %d bytes, %v", n, len(got), err)
		}
	}
	if err := p.Verify([]byte("x"), own.AppendMIC(nil, []byte("y"))); err == nil {
		t.Error("MIT takes a MIC for another message")
	}
	bad := own.AppendWrap(nil, []byte("message"))
	bad[len(bad)-1] ^= 1
	if _, err := p.Unwrap(bad); err == nil {
		t.Error("MIT takes an altered token")
	}
}

// TestAcceptorWithMIT: MIT's initiator makes contexts with this acceptor, by session keys
// of each type.
func TestAcceptorWithMIT(t *testing.T) {
	r := realm.Start(t)
	r.AddUser("alice", "secret")
	cache := r.Path("cc")
	r.Kinit("alice", "secret", cache, 0)
	for e, name := range realm.AES {
		t.Run(name, func(t *testing.T) {
			host := fmt.Sprintf("host%d.test.lan", e)
			a, err := NewAcceptor(r.AddService("nfs/"+host, e), "nfs")
			if err != nil {
				t.Fatal(err)
			}
			p, token := gsspeer.Initiator(t, r, cache, "nfs@"+host)
			reply, own, who, err := a.Accept(token)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Finish(reply); err != nil {
				t.Fatal(err)
			}
			if who != (rpcsecgss.Principal{Name: "alice", Realm: realm.Name}) {
				t.Errorf("principal %v", who)
			}
			if left := time.Until(own.Expires()); left < 23*time.Hour || left > 24*time.Hour {
				t.Errorf("expires in %v, want a day", left)
			}
			exchange(t, own, p)
			// The client may send its token again, for the answer may be lost.
			if _, other, _, err := a.Accept(token); err != nil {
				t.Error(err)
			} else if err := own.VerifyMIC([]byte("x"), other.AppendMIC(nil, []byte("x"))); err == nil {
				t.Error("two contexts of one token have the same key")
			}
		})
	}
}
