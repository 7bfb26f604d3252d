package account

import (
	"cmp"
	"encoding/json"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// The buckets of a histogram: steps for each power of two, from unit up. The last one has all that is longer.
const (
	unit    = 8 // log2 of the width of the first buckets, in nanoseconds
	steps   = 8
	buckets = 32 * steps
)

// Histogram counts durations. The zero value is empty.
type Histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Uint64 // nanoseconds
}

// Add counts one duration; a negative one counts as none.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)].Add(1)
	h.sum.Add(uint64(d))
}

func bucketOf(d time.Duration) int {
	u := uint64(d) >> unit
	if u < 2*steps {
		return int(u)
	}
	shift := bits.Len64(u) - bits.Len64(steps)
	return min(shift*steps+int(u>>shift), buckets-1)
}

// upTo is the least duration that is longer than those of a bucket.
func upTo(bucket int) time.Duration {
	if bucket < 2*steps {
		return time.Duration(bucket+1) << unit
	}
	shift := bucket/steps - 1
	return time.Duration(bucket%steps+steps+1) << (shift + unit)
}

// Times is what a Histogram held at one moment.
type Times struct {
	// SumNS is the sum of all durations, in nanoseconds.
	SumNS uint64
	// Buckets are those that are not empty, the shortest durations first.
	Buckets []Bucket
}

// Bucket counts the durations shorter than UpToNS nanoseconds and not shorter than those of the bucket before.
type Bucket struct{ UpToNS, Count uint64 }

// timesJSON is the JSON of Times. Buckets are pairs, which keeps a report within the bound of a control socket's
// answer. Mean and quantiles follow from the buckets, and are there for readers that do not compute them.
type timesJSON struct {
	MeanNS  uint64      `json:"mean_ns"`
	P50NS   uint64      `json:"p50_ns"`
	P99NS   uint64      `json:"p99_ns"`
	SumNS   uint64      `json:"sum_ns"`
	Buckets [][2]uint64 `json:"buckets"` // up to so many nanoseconds, so often
}

// MarshalJSON implements json.Marshaler.
func (t Times) MarshalJSON() ([]byte, error) {
	j := timesJSON{uint64(t.Mean()), uint64(t.Quantile(0.5)), uint64(t.Quantile(0.99)), t.SumNS, make([][2]uint64, len(t.Buckets))}
	for i, b := range t.Buckets {
		j.Buckets[i] = [2]uint64{b.UpToNS, b.Count}
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler. What follows from the buckets is not read.
func (t *Times) UnmarshalJSON(b []byte) error {
	var j timesJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	*t = Times{SumNS: j.SumNS}
	for _, b := range j.Buckets {
		t.Buckets = append(t.Buckets, Bucket{b[0], b[1]})
	}
	return nil
}

// Snapshot is what h holds.
func (h *Histogram) Snapshot() Times {
	t := Times{SumNS: h.sum.Load()}
	for i := range h.counts {
		if n := h.counts[i].Load(); n > 0 {
			t.Buckets = append(t.Buckets, Bucket{uint64(upTo(i)), n})
		}
	}
	return t
}

// Count is the number of durations.
func (t *Times) Count() (n uint64) {
	for _, b := range t.Buckets {
		n += b.Count
	}
	return n
}

// Mean is their mean, 0 without any.
func (t *Times) Mean() time.Duration {
	if n := t.Count(); n > 0 {
		return time.Duration(t.SumNS / n)
	}
	return 0
}

// Quantile is a duration than which the part q of all is shorter, 0 without any: at most an eighth too long.
func (t *Times) Quantile(q float64) time.Duration {
	rank, n := uint64(q*float64(t.Count())), uint64(0)
	for _, b := range t.Buckets {
		if n += b.Count; n > rank {
			return time.Duration(b.UpToNS)
		}
	}
	if len(t.Buckets) > 0 {
		return time.Duration(t.Buckets[len(t.Buckets)-1].UpToNS)
	}
	return 0
}

// Merge adds what o holds to t.
func (t *Times) Merge(o *Times) {
	t.SumNS += o.SumNS
	t.Buckets = append(slices.Clone(t.Buckets), o.Buckets...)
	slices.SortFunc(t.Buckets, func(a, b Bucket) int { return cmp.Compare(a.UpToNS, b.UpToNS) })
}

// Since is what has been added to t since before. What the two have not in common, as after a restart, counts as
// new: nothing becomes negative.
func (t *Times) Since(before *Times) Times {
	had := make(map[uint64]uint64, len(before.Buckets))
	for _, b := range before.Buckets {
		had[b.UpToNS] += b.Count
	}
	d := Times{SumNS: Grown(t.SumNS, before.SumNS)}
	for _, b := range t.Buckets {
		if n := Grown(b.Count, had[b.UpToNS]); n > 0 {
			d.Buckets = append(d.Buckets, Bucket{b.UpToNS, n})
		}
	}
	return d
}

// Grown is by how much a counter has grown, all of it if it has begun anew.
func Grown(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}
