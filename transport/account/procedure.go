package account

import "strconv"

// Procedure is what the calls of one procedure have cost.
type Procedure struct {
	Program   string `json:"program"`
	Procedure string `json:"procedure"`
	Calls     uint64 `json:"calls"`
	// Errors counts the calls without a reply, and replies that say that the call has failed.
	Errors        uint64 `json:"errors"`
	Resends       uint64 `json:"resends"`
	Timeouts      uint64 `json:"timeouts"`
	BytesSent     uint64 `json:"bytes_sent"`
	BytesReceived uint64 `json:"bytes_received"`
	// Queue is from the call to its last transmission, RTT from there to the reply, Execution both.
	Queue     Times `json:"queue"`
	RTT       Times `json:"rtt"`
	Execution Times `json:"execution"`
}

// Since is what has been added to p since before, a Procedure of the same name.
func (p *Procedure) Since(before *Procedure) Procedure {
	return Procedure{
		Program: p.Program, Procedure: p.Procedure,
		Calls:         Grown(p.Calls, before.Calls),
		Errors:        Grown(p.Errors, before.Errors),
		Resends:       Grown(p.Resends, before.Resends),
		Timeouts:      Grown(p.Timeouts, before.Timeouts),
		BytesSent:     Grown(p.BytesSent, before.BytesSent),
		BytesReceived: Grown(p.BytesReceived, before.BytesReceived),
		Queue:         p.Queue.Since(&before.Queue),
		RTT:           p.RTT.Since(&before.RTT),
		Execution:     p.Execution.Since(&before.Execution),
	}
}

// Since is what has happened between two lists of procedures: those that were called meanwhile.
func Since(now, before []Procedure) (grown []Procedure) {
	type name struct{ program, procedure string }
	had := make(map[name]*Procedure, len(before))
	for i := range before {
		had[name{before[i].Program, before[i].Procedure}] = &before[i]
	}
	for i := range now {
		p := &now[i]
		d := *p
		if b := had[name{p.Program, p.Procedure}]; b != nil {
			d = p.Since(b)
		}
		if d.Calls > 0 {
			grown = append(grown, d)
		}
	}
	return grown
}

func decimal(what string, n uint32) string { return what + "-" + strconv.FormatUint(uint64(n), 10) }
