package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// contacted is a way, connected or not.
type contacted struct {
	Way
	at      netip.Addr
	contact Contact // nil when it could not even be opened
	link    transport.Link
	openErr error // of Open
	err     error // of Connect, or of the calls
	section Section
}

func (c *contacted) works() bool { return c.openErr == nil && c.err == nil }

func (c *contacted) String() string {
	return fmt.Sprintf("%s to %s", c.Name, netip.AddrPortFrom(c.at, c.Port))
}

// connectAll connects over all ways at once, each to the first address that
// answers.
func (e *examination) connectAll(ctx context.Context, addrs []netip.Addr) {
	e.found = make([]contacted, len(e.Ways))
	var running sync.WaitGroup
	for i, w := range e.Ways {
		e.found[i] = contacted{Way: w}
		running.Add(1)
		go e.runConnect(ctx, &e.found[i], addrs, &running)
	}
	running.Wait()
}

func (e *examination) runConnect(ctx context.Context, c *contacted, addrs []netip.Addr, done *sync.WaitGroup) {
	defer done.Done()
	for _, a := range addrs {
		c.close()
		c.at = a
		if e.connect(ctx, c); c.works() {
			return
		}
	}
}

// connect opens the way to c.at and connects.
func (e *examination) connect(ctx context.Context, c *contacted) {
	ctx, cancel := context.WithTimeout(ctx, e.Patience)
	defer cancel()
	if c.contact, c.openErr = c.Open(ctx, c.at); c.openErr == nil {
		c.link, c.err = c.contact.Connect(ctx)
	}
}

func (c *contacted) hangUp() {
	if c.link != nil {
		_ = c.link.Close()
		c.link = nil
	}
}

func (c *contacted) close() {
	c.hangUp()
	if c.contact != nil {
		c.contact.Close()
		c.contact = nil
	}
}

func (e *examination) closeAll() {
	for i := range e.found {
		e.found[i].close()
	}
}

// working is the first way that works among those that the mount may take, or
// among the others.
func (e *examination) working(chosen bool) *contacted {
	for i := range e.found {
		if c := &e.found[i]; c.Chosen == chosen && c.works() {
			return c
		}
	}
	return nil
}

// ways measures the connections, one after the other, and makes a section of
// each way that the mount may take and one of the others.
func (e *examination) ways(ctx context.Context) []Section {
	for i := range e.found {
		e.found[i].section = e.measure(ctx, &e.found[i])
	}
	e.weigh()
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

// weigh makes of failures warnings when the mount has another way, and passes
// over ways that this machine does not have if it has another. When none works,
// the last word about the first way is where to say what would.
func (e *examination) weigh() {
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

// measure says what one way is like.
func (e *examination) measure(ctx context.Context, c *contacted) Section {
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
	ctx, cancel := context.WithTimeout(ctx, e.Patience)
	defer cancel()
	rtt, err := roundTrips(ctx, c.link)
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
		what += "remote invalidation offered" // which Linux uses without a word
	}
	return Step{Name: "private data", Status: OK, Detail: what, Facts: t}
}

// curiosity is how long to wait for what mount need not know.
const curiosity = 5 * time.Second

// versions asks what versions the server has. That it speaks ours is shown by
// the NULL call.
func versions(ctx context.Context, c Contact) Step {
	const name = "RPC-over-RDMA"
	ctx, cancel := context.WithTimeout(ctx, curiosity)
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
func (e *examination) other(c *contacted) Step {
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
