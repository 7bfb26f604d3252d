package account

import (
	"sync/atomic"
	"time"
)

// leastProcedures is how many procedures a program has room for at least, named or not.
const leastProcedures = 32

// Program names an RPC program and its procedures, by their numbers. Of one that has a single procedure for
// everything, Procedures may name the kinds of its calls.
type Program struct {
	Number     uint32
	Name       string
	Procedures []string
}

// Table counts the calls of some programs. A nil Table counts nothing.
type Table struct {
	programs []program
}

type program struct {
	Program
	of []atomic.Pointer[counters]
}

// counters are those of one procedure.
type counters struct {
	failed, resends, timeouts, sent, received atomic.Uint64
	queue, trip, execution                    Histogram
}

// New makes a Table that counts the calls of these programs, and no others.
func New(programs []Program) *Table {
	t := &Table{programs: make([]program, len(programs))}
	for i := range programs {
		p := &t.programs[i]
		p.Program = programs[i]
		p.of = make([]atomic.Pointer[counters], max(leastProcedures, len(p.Procedures)))
	}
	return t
}

// Spent is what one call has cost.
type Spent struct {
	// Queue is from when the call was made until it was sent for the last time, Trip from then to its reply, 0 if
	// there was none.
	Queue, Trip time.Duration
	// Sent and Received are the bytes of call and reply, without what the transport adds.
	Sent, Received int
	// Resends and Timeouts count transmissions after the first one, and times that no reply came in time.
	Resends, Timeouts int
	// Failed: there was no reply, or it was an error.
	Failed bool
}

// Add counts a call.
func (t *Table) Add(prog, proc uint32, s *Spent) {
	c := t.find(prog, proc)
	if c == nil {
		return
	}
	c.queue.Add(s.Queue)
	c.trip.Add(s.Trip)
	c.execution.Add(s.Queue + s.Trip)
	c.sent.Add(uint64(s.Sent))
	c.received.Add(uint64(s.Received))
	if s.Failed {
		c.failed.Add(1)
	}
	if s.Resends > 0 {
		c.resends.Add(uint64(s.Resends))
	}
	if s.Timeouts > 0 {
		c.timeouts.Add(uint64(s.Timeouts))
	}
}

// find is the counters of a procedure, nil if its calls are not counted.
func (t *Table) find(prog, proc uint32) *counters {
	if t == nil {
		return nil
	}
	for i := range t.programs {
		p := &t.programs[i]
		if p.Number != prog {
			continue
		}
		if int64(proc) >= int64(len(p.of)) {
			return nil
		}
		c := p.of[proc].Load()
		if c == nil {
			c = new(counters)
			if !p.of[proc].CompareAndSwap(nil, c) {
				c = p.of[proc].Load()
			}
		}
		return c
	}
	return nil
}

// Name names a procedure: "NFS READ".
func (t *Table) Name(prog, proc uint32) (program, procedure string) {
	if t != nil {
		for i := range t.programs {
			if p := &t.programs[i]; p.Number == prog {
				return p.Name, p.procedure(int(proc))
			}
		}
	}
	return decimal("PROGRAM", prog), decimal("PROCEDURE", proc)
}

func (p *Program) procedure(n int) string {
	if n < len(p.Procedures) && p.Procedures[n] != "" {
		return p.Procedures[n]
	}
	return decimal("PROCEDURE", uint32(n))
}

// Procedures is what t has counted, of procedures that were called.
func (t *Table) Procedures() (all []Procedure) {
	if t == nil {
		return nil
	}
	for i := range t.programs {
		p := &t.programs[i]
		for n := range p.of {
			c := p.of[n].Load()
			if c == nil {
				continue
			}
			s := Procedure{
				Program: p.Name, Procedure: p.procedure(n),
				Errors: c.failed.Load(), Resends: c.resends.Load(), Timeouts: c.timeouts.Load(),
				BytesSent: c.sent.Load(), BytesReceived: c.received.Load(),
				Queue: c.queue.Snapshot(), RTT: c.trip.Snapshot(), Execution: c.execution.Snapshot(),
			}
			s.Calls = s.Execution.Count()
			all = append(all, s)
		}
	}
	return all
}
