package rc

import "time"

const (
	// The time until something is sent again: until there is a measurement,
	// and the bounds of what comes of one.
	rtoFirst = 200 * time.Millisecond
	rtoMin   = 20 * time.Millisecond
	rtoMax   = 2 * time.Second
	// maxTries is how often in a row the requester goes back with nothing
	// acknowledged in between: at least some ten seconds.
	maxTries = 12
)

// timing is the requester's timers.
type timing struct {
	// rto is the time-out in force; srtt the smoothed time that an
	// acknowledgement takes.
	rto, srtt time.Duration
	armed     bool
	expiry    time.Duration
	tries     int
	// resume is when a receiver that was not ready is tried again; 0 when
	// none is waited for.
	resume   time.Duration
	notReady int

	sampling bool
	sampled  uint64
	since    time.Duration
}

// arm starts the time-out unless it runs.
func (t *timing) arm(now time.Duration) {
	if !t.armed {
		t.armed, t.expiry = true, now+t.rto
	}
}

// sample measures until number seq is acknowledged, if nothing else is being
// measured.
func (t *timing) sample(now time.Duration, seq uint64) {
	if !t.sampling {
		t.sampling, t.sampled, t.since = true, seq, now
	}
}

// unsample drops a measurement: of a packet sent twice it means nothing.
func (t *timing) unsample() { t.sampling = false }

// progress records that all before number to is acknowledged; more: something
// else is in flight.
func (t *timing) progress(now time.Duration, to uint64, more bool) {
	if t.sampling && t.sampled < to {
		t.sampling = false
		if d := now - t.since; t.srtt == 0 {
			t.srtt = d
		} else {
			t.srtt += (d - t.srtt) / 8
		}
	}
	t.rto = rtoFirst
	if t.srtt > 0 {
		t.rto = min(max(4*t.srtt, rtoMin), rtoMax)
	}
	t.tries, t.notReady = 0, 0
	t.armed, t.expiry = more, now+t.rto
}

// backOff doubles the time-out and stops it until something is sent.
func (t *timing) backOff() {
	t.rto = min(2*t.rto, rtoMax)
	t.armed = false
}

// again counts one more try and reports whether that is too many.
func (t *timing) again() bool {
	t.tries++
	return t.tries > maxTries
}

// hold sends nothing until then.
func (t *timing) hold(then time.Duration) {
	t.resume = then
	t.armed = false
}

// deadline is the next moment that matters.
func (r *requester) deadline() time.Duration {
	t := &r.timing
	switch {
	case t.resume > 0:
		return t.resume
	case t.armed:
		return t.expiry
	}
	return Never
}

// rnrTimers are the delays of an RNR NAK's timer codes, in microseconds
// (InfiniBand specification, volume 1, table 45).
var rnrTimers = [32]int{655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520}

func rnrDelay(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&synRNRTimer]) * time.Microsecond
}
