package session

import (
	"math/rand/v2"
	"testing"
)

// TestSlotTable compares the table with a list of flags.
func TestSlotTable(t *testing.T) {
	const most = 200
	seed := rand.Uint64()
	g := rand.New(rand.NewPCG(seed, 0))
	table, target := newSlots(70), 70
	busy, seqs := map[int]bool{}, map[int]uint32{}
	for step := range 200000 {
		switch g.IntN(20) {
		case 0:
			highest, wish := g.Uint32N(300), g.Uint32N(300)
			table.limit(highest, wish, most)
			target = min(int(highest)+1, int(wish)+1, most)
		default:
			if g.IntN(100) < 52 {
				from := g.IntN(2)
				want := from
				for want < target && busy[want] {
					want++
				}
				n, ok := table.take(from)
				if ok != (want < target) || ok && n != want {
					t.Fatalf("seed %d, step %d: slot %d, %v instead of %d of %d", seed, step, n, ok, want, target)
				}
				if ok {
					busy[n] = true
					if seqs[n]+1 != table.all[n].seq {
						t.Fatalf("seed %d, step %d: slot %d has sequence ID %d after %d", seed, step, n, table.all[n].seq, seqs[n])
					}
				}
				break
			}
			for n := range busy {
				consumed := g.IntN(2) == 0
				table.give(n, consumed)
				if consumed {
					seqs[n]++
				}
				delete(busy, n)
				break
			}
		}
		highest := 0
		for n := range busy {
			highest = max(highest, n)
		}
		if table.highest() != highest || table.used != len(busy) {
			t.Fatalf("seed %d, step %d: highest %d of %d instead of %d of %d", seed, step, table.highest(), table.used, highest, len(busy))
		}
	}
}

// TestLargestTarget: a server may say that it has any number of slots.
func TestLargestTarget(t *testing.T) {
	table := newSlots(3)
	table.limit(1<<32-1, 1<<32-1, 5)
	for range 5 {
		if _, ok := table.take(0); !ok {
			t.Fatal("too few")
		}
	}
	if n, ok := table.take(0); ok {
		t.Errorf("slot %d", n)
	}
}
