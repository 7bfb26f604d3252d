package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ways measures the connections, one after the other, and makes a section of
// each way that the mount may take and one of the others.
func (e *examination) ways(ctx context.Context) []Section {
	for i := range e.found {
		e.found[i].section = e.measure(ctx, &e.found[i])
	}
	e.downgrade()
	others := Section{Title: "Other ways"}
	var shown []Section
	for i := range e.found {
		if c := &e.found[i]; c.Chosen {
			shown = append(shown, c.section)
		} else {
			others.add(e.other(c))
		}
	}
	return append(shown, others)
}

// downgrade turns failures into warnings when the mount has another way, and skips
// ways that this machine does not have if it has another. When none works, the last
// step of the first way gets the remedy.
func (e *examination) downgrade() {
	first, hinted, opened := e.working(true), false, false
	for i := range e.found {
		opened = opened || e.found[i].Chosen && e.found[i].openErr == nil
	}
	for i := range e.found {
		c := &e.found[i]
		st := c.section.last()
		switch {
		case !c.Chosen || st.Status != Failure:
		case opened && c.openErr != nil:
			*st = skipped(st.Name, st.Detail)
		case first != nil:
			st.Status, st.Detail = Warning, st.Detail+": mount takes "+first.Name
		case !hinted:
			hinted = true
			if w := e.working(false); w != nil {
				st.Remedy = alternatives(st.Remedy, fmt.Sprintf("%s answers on port %d: rdmafs mount %s MOUNTPOINT -o %s",
					w.Name, w.Port, e.Target, joinWords(e.Words, w.Options)))
			}
		}
	}
}

func joinWords(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ",")
}

// measure examines one way.
func (e *examination) measure(ctx context.Context, c *attempt) Section {
	s := Section{Title: c.String()}
	switch {
	case c.openErr != nil:
		s.add(e.failed("connection", c.openErr))
		return s
	case c.err != nil:
		s.add(e.failed("connection", c.err))
		return s
	}
	s.add(ok("connection", "established"))
	if t := c.contact.Encryption(); t != nil {
		s.add(encryption(t)...)
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	version, err := e.nfsVersion(ctx, c)
	var rtt *Times
	if err == nil {
		rtt, err = roundTrips(ctx, c.link, version)
	}
	if err != nil {
		c.err = err
	}
	if t := c.contact.Terms(c.link); t != nil {
		s.add(privateData(t))
		s.add(versions(ctx, c.contact))
		if err == nil {
			s.add(Step{Name: "credits", Status: OK, Detail: fmt.Sprintf("%d asked for, %d granted", t.Asked, t.Granted), Facts: t})
		}
	}
	if err != nil {
		st := e.failed("NULL call", err)
		if st.Remedy == "" {
			st.Remedy = "is that port the NFS server's?"
		}
		s.add(st)
		return s
	}
	s.add(Step{Name: "NULL call", Status: OK, Detail: rtt.String(), Facts: rtt})
	return s
}

// soonOver is how long before its end a certificate is worth a warning.
const soonOver = 14 * 24 * time.Hour

// encryption tells of TLS.
func encryption(t *Encryption) []Step {
	st := Step{Name: "encryption", Status: OK, Detail: t.What, Facts: t}
	if left := time.Until(t.Until); left < soonOver {
		st.Status, st.Remedy = Warning, fmt.Sprintf("renew the server's certificate: it ends in %d hours, and connections are not made any more then", int(left.Hours()))
	}
	steps := []Step{st}
	if t.ExposedKey != "" {
		steps = append(steps, warning("private key", "other users may read "+t.ExposedKey, "chmod 600 "+t.ExposedKey))
	}
	return steps
}

func privateData(t *Terms) Step {
	what := fmt.Sprintf("inline %d bytes to the server, %d back, ", t.SendInline, t.RecvInline)
	switch {
	case !t.Told:
		what = "none: " + what + "as RFC 8166 has it"
	case !t.OfferInvalidate:
		what += "no remote invalidation"
	case t.AgreeInvalidate:
		what += "remote invalidation agreed"
	default:
		what += "remote invalidation offered" // Linux uses it without agreeing
	}
	return Step{Name: "private data", Status: OK, Detail: what, Facts: t}
}

// versionsTimeout bounds the question for versions, which a mount does not need.
const versionsTimeout = 5 * time.Second

// versions asks what versions the server has. The NULL call has shown that it has
// this one.
func versions(ctx context.Context, c Contact) Step {
	const name = "RPC-over-RDMA"
	ctx, cancel := context.WithTimeout(ctx, versionsTimeout)
	defer cancel()
	low, high, err := c.Versions(ctx)
	switch {
	case err != nil:
		return skipped(name, fmt.Sprintf("the server does not tell its versions: %v", err))
	case low == high:
		return ok(name, fmt.Sprintf("version %d", low))
	}
	return ok(name, fmt.Sprintf("versions %d to %d", low, high))
}

// other is one line about a way that the mount will not take.
func (e *examination) other(c *attempt) Step {
	name, last := fmt.Sprintf("%s:%d", c.Name, c.Port), c.section.last()
	switch {
	case c.openErr != nil:
		return skipped(name, last.Detail)
	case !c.works():
		what := last.Detail
		if e.working(true) != nil {
			what += ": mount does not need it"
		}
		return warning(name, what, "")
	}
	return Step{Name: name, Status: OK, Facts: last.Facts,
		Detail: fmt.Sprintf("answers, %s (choose it with -o %s)", last.Detail, c.Options)}
}
