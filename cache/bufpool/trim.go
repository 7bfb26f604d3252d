package bufpool

import (
	"slices"
	"time"
)

// trimInterval is how often free slabs are looked at while any of them holds memory. One that
// was free for a whole interval gives it back to the system: memory that a burst has needed
// is not kept for good. To have a page again costs a fault, as much as copying it twice, so
// that bursts in quick succession must not pay for it.
const trimInterval = 20 * time.Second

// freed notes that s, which is free now, holds memory; mu is held.
func (p *Pool) freed(s *slab) {
	s.holds, s.tick = true, p.tick
	if (p.cfg.Trim || p.cfg.Idle != nil) && !p.trimming && !p.closed {
		p.trimming = true
		p.armTrim()
	}
}

// armTrim has runTrim run after an interval; mu is held.
func (p *Pool) armTrim() {
	p.runs.Add(1)
	if p.trimmer == nil {
		p.trimmer = time.AfterFunc(trimInterval, p.runTrim)
	} else {
		p.trimmer.Reset(trimInterval)
	}
}

// runTrim ends an interval; Close joins it.
func (p *Pool) runTrim() {
	defer p.runs.Done()
	if p.trim() && p.cfg.Idle != nil {
		p.cfg.Idle()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trimming = !p.closed && slices.ContainsFunc(p.free, func(s *slab) bool { return s.holds })
	if p.trimming {
		p.armTrim()
	}
}

// stopTrim ends trimming; p is closed.
func (p *Pool) stopTrim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trimming && p.trimmer.Stop() {
		p.trimming = false
		p.runs.Done()
	}
}

// trim gives back the memory of the slabs that have been free since the last time, and reports
// whether there were any. Each is out of the list meanwhile, and then the last to be lent.
func (p *Pool) trim() (some bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tick++
	for {
		k := slices.IndexFunc(p.free, func(s *slab) bool { return s.holds && p.tick-s.tick > 1 })
		if k < 0 {
			return some
		}
		some = true
		s := p.free[k]
		p.free = slices.Delete(p.free, k, k+1)
		p.mu.Unlock()
		if p.cfg.Trim {
			// If the system refuses, the memory is merely kept.
			_ = s.arena.Discard(s.off, slabSize)
		}
		p.mu.Lock()
		s.holds = false
		p.free = slices.Insert(p.free, 0, s)
		p.serve()
	}
}
