package providers

import (
	"cmp"
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
)

func TestPlanMemory(t *testing.T) {
	o := options.Default()
	if m, err := PlanMemory(unix.RLIM_INFINITY, &o); err != nil || m != unlimited {
		t.Errorf("without limit: %+v, %v", m, err)
	}
	// Debian's default for an ordinary user.
	if m, err := PlanMemory(8*mib, &o); err != nil || m.Pool != 5*mib || m.credits != fewCredits || !strings.Contains(m.Note, "8 MiB: 5 MiB of buffers in place of 128") {
		t.Errorf("8 MiB: %+v, %v", m, err)
	}
	// A threshold that is not the default stays.
	if m, _ := PlanMemory(8*mib, &o); m.inline != smallInline {
		t.Errorf("8 MiB: inline threshold %d", m.inline)
	}
	few := o
	few.Inline = 1024
	if m, _ := PlanMemory(8*mib, &few); m.inline != 0 {
		t.Errorf("8 MiB, inline=1024: inline threshold %d", m.inline)
	}
	if _, err := PlanMemory(4*mib, &o); err == nil || !strings.Contains(err.Error(), "the limit is 4096 KiB") {
		t.Errorf("4 MiB: %v", err)
	}
	for _, nconnect := range []int{1, 4, 16} {
		for _, inline := range []int{1024, 4096, 8192, 65536} {
			o.NConnect, o.Inline = nconnect, inline
			last := 0
			for limit := uint64(mib); limit <= 512*mib; limit += mib / 2 {
				m, err := PlanMemory(limit, &o)
				if err != nil {
					if last > 0 {
						t.Errorf("nconnect %d, inline %d: %d KiB are too few, and less was not", nconnect, inline, limit>>10)
					}
					continue
				}
				if m.Pool < last || m.Pool > PoolBytes || m.Pool < leastPool {
					t.Errorf("nconnect %d, inline %d: %d KiB give a pool of %d KiB, less gave %d", nconnect, inline, limit>>10, m.Pool>>10, last>>10)
				}
				last = m.Pool
				if m == unlimited {
					m.long, m.credits = rpcrdma.DefaultLongBytes, rpcrdma.DefaultCredits
				}
				if locked := m.Pool + m.long + nconnect*rpcrdma.LinkBytes(m.credits, cmp.Or(m.inline, inline)); uint64(locked) > limit {
					t.Errorf("nconnect %d, inline %d: %d KiB are locked of %d", nconnect, inline, locked>>10, limit>>10)
				}
			}
			if last != PoolBytes {
				t.Errorf("nconnect %d, inline %d: never enough", nconnect, inline)
			}
		}
	}
}

func TestPlanMemoryOfAnything(t *testing.T) {
	o := options.Default()
	for _, limit := range []uint64{0, 1, math.MaxInt64, math.MaxUint64 - 1} {
		if m, err := PlanMemory(limit, &o); err == nil && m.Pool < leastPool {
			t.Errorf("%d: %+v", limit, m)
		}
	}
}
