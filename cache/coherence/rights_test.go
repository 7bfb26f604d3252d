package coherence

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// TestRightsModel holds rights to a map, for the user 0 and others, and forgets them now
// and then: what is remembered afterwards knows still when that was.
func TestRightsModel(t *testing.T) {
	type known struct {
		asked, granted nfsclient.AccessMask
		until          time.Duration
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var rights Rights
		model, gen := map[User]known{}, uint64(0)
		for now := range time.Duration(60) {
			u := User{UID: uint32(r.IntN(4))}
			switch r.IntN(8) {
			case 0:
				gen += 1 + r.Uint64N(3)
				rights.Forget(gen)
				clear(model)
			case 1, 2, 3:
				asked := nfsclient.AccessMask(1 + r.IntN(63))
				granted, until := nfsclient.AccessMask(r.IntN(64)), now+time.Duration(r.IntN(20))
				rights.Remember(u, asked, granted, until)
				k := model[u]
				if k.asked&^asked != 0 {
					until = min(until, k.until)
				}
				model[u] = known{k.asked | asked, k.granted&^asked | granted&asked, until}
			}
			want := nfsclient.AccessMask(1 + r.IntN(63))
			k := model[u]
			got, ok := rights.Granted(u, want, now)
			if sure := k.asked&want == want && now < k.until; ok != sure || ok && got != k.granted&want {
				t.Fatalf("granted %v, %v of %v at %v, want %+v", got, ok, want, now, k)
			}
			got, ok = rights.Last(u, want)
			if sure := k.asked&want == want; ok != sure || ok && got != k.granted&want {
				t.Fatalf("last %v, %v of %v, want %+v", got, ok, want, k)
			}
			if rights.Current(Stamp{Gen: gen}) || !rights.Current(Stamp{Gen: gen + 1}) {
				t.Fatalf("forgotten at %d: not so for replies", gen)
			}
		}
	}
}
