package account

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var programs = []Program{{Number: 7, Name: "P", Procedures: []string{"NULL", "READ"}}}

// TestBuckets: each duration is in a bucket whose end is longer by no more than an eighth, and ends only grow.
func TestBuckets(t *testing.T) {
	for i := 1; i < buckets; i++ {
		if upTo(i) <= upTo(i-1) {
			t.Fatalf("bucket %d ends at %v, the one before at %v", i, upTo(i), upTo(i-1))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		d := time.Duration(math.Exp(r.Float64() * math.Log(float64(time.Hour))))
		b := bucketOf(d)
		end := upTo(b)
		if d >= end || b > 0 && d < upTo(b-1) {
			t.Fatalf("%v is in bucket %d, which ends at %v", d, b, end)
		}
		if over := end - d; over > 1<<unit && over > d/steps+1 {
			t.Fatalf("%v counts as %v", d, end)
		}
	}
	if b := bucketOf(math.MaxInt64); b != buckets-1 {
		t.Errorf("the longest duration is in bucket %d", b)
	}
}

// TestQuantiles: those of a Histogram are those of the sorted durations, but for an eighth.
func TestQuantiles(t *testing.T) {
	var h Histogram
	var all []time.Duration
	r := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		h.Add(d)
	}
	slices.Sort(all)
	s := h.Snapshot()
	for _, q := range []float64{0.5, 0.99} {
		want, got := all[int(q*float64(len(all)))], s.Quantile(q)
		if got < want || got > want+want/steps+1<<unit {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
	}
	if s.Count() != uint64(len(all)) {
		t.Errorf("%d durations of %d", s.Count(), len(all))
	}
}

// TestTable: callers at once lose nothing, and what is not known is not counted.
func TestTable(t *testing.T) {
	tab := New(programs)
	var wg sync.WaitGroup
	const callers, calls = 8, 1000
	for range callers {
		wg.Go(func() {
			for range calls {
				tab.Add(7, 1, &Spent{Queue: time.Microsecond, Trip: time.Millisecond, Sent: 10, Received: 20, Resends: 1, Failed: true})
				tab.Add(8, 1, &Spent{})
				tab.Add(7, leastProcedures, &Spent{})
			}
		})
	}
	wg.Wait()
	got := tab.Procedures()
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	const n = callers * calls
	p := got[0]
	if p.Program != "P" || p.Procedure != "READ" || p.Calls != n || p.Errors != n || p.Resends != n || p.BytesSent != 10*n || p.BytesReceived != 20*n {
		t.Errorf("%+v", p)
	}
	if want := uint64(n * (time.Millisecond + time.Microsecond)); p.Execution.SumNS != want {
		t.Errorf("execution %d ns, not %d", p.Execution.SumNS, want)
	}
	tab.Add(7, 0, &Spent{})
	tab.Add(7, 1, &Spent{})
	if d := Since(tab.Procedures(), got); len(d) != 2 || d[0].Calls != 1 || d[1].Calls != 1 || d[1].Errors != 0 || d[1].Execution.Count() != 1 {
		t.Errorf("since then %+v", d)
	}
	if d := Since(got, tab.Procedures()); len(d) != 1 || d[0].Calls != n {
		t.Errorf("counters that begin anew: %+v", d)
	}
}

// TestJSON: Times come through JSON as they were.
func TestJSON(t *testing.T) {
	var h Histogram
	for d := time.Nanosecond; d < time.Hour; d *= 3 {
		h.Add(d)
	}
	want := h.Snapshot()
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Times
	if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v became %+v, %v", want, got, err)
	}
	if !strings.Contains(string(b), fmt.Sprintf(`"p50_ns":%d,`, want.Quantile(0.5))) {
		t.Errorf("%s", b)
	}
}

// TestAddAllocatesNothing, once a procedure was called.
func TestAddAllocatesNothing(t *testing.T) {
	tab := New(programs)
	s := &Spent{Trip: time.Millisecond}
	tab.Add(7, 1, s)
	if n := testing.AllocsPerRun(100, func() { tab.Add(7, 1, s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	tab := New(programs)
	s := &Spent{Queue: time.Microsecond, Trip: time.Millisecond, Sent: 100, Received: 100}
	for b.Loop() {
		tab.Add(7, 1, s)
	}
}
