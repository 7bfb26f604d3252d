package coherence

import (
	"fmt"
	"testing"
)

// pagesIn is a Pages in each state, that has had an invalidation before.
func pagesIn(s PagesState) *Pages {
	p := &Pages{}
	p.Doubt()
	p.Schedule()
	p.Start()
	p.Done(1)
	p.Told(2)
	p.Open()
	switch s {
	case Doubtful:
		p.Doubt()
	case Scheduled:
		p.Doubt()
		p.Schedule()
	case Clearing, Overtaken:
		p.Doubt()
		p.Schedule()
		p.Start()
	}
	if s == Overtaken {
		p.Doubt()
	}
	return p
}

// TestPagesTransitions walks every pair of a state and an event that may come
// in it. A name that stands for a result is put behind the new state.
func TestPagesTransitions(t *testing.T) {
	events := []struct {
		name string
		do   func(p *Pages) any
		next map[PagesState]string
	}{
		{"Doubt", func(p *Pages) any { p.Doubt(); return nil }, map[PagesState]string{
			Current: "Doubtful", Doubtful: "Doubtful", Scheduled: "Scheduled", Clearing: "Overtaken", Overtaken: "Overtaken"}},
		{"Schedule", func(p *Pages) any { return p.Schedule() }, map[PagesState]string{
			Current: "Current false", Doubtful: "Scheduled true", Scheduled: "Scheduled false", Clearing: "Clearing false", Overtaken: "Overtaken false"}},
		{"Cancel", func(p *Pages) any { p.Cancel(); return nil }, map[PagesState]string{Scheduled: "Doubtful"}},
		{"Start", func(p *Pages) any { p.Start(); return nil }, map[PagesState]string{Scheduled: "Clearing"}},
		{"Done", func(p *Pages) any { p.Done(10); return p.Sized() }, map[PagesState]string{
			Clearing: "Current false", Overtaken: "Doubtful false"}},
		{"Told", func(p *Pages) any { p.Told(10); return p.Sized() }, map[PagesState]string{
			Current: "Current true", Doubtful: "Doubtful true", Scheduled: "Scheduled true", Clearing: "Clearing true", Overtaken: "Overtaken true"}},
		{"Open", func(p *Pages) any { return p.Open() }, map[PagesState]string{
			Current: "Current true", Doubtful: "Doubtful false", Scheduled: "Scheduled false", Clearing: "Clearing false", Overtaken: "Overtaken false"}},
		{"Ticket", func(p *Pages) any { return p.Covered(p.Ticket()) }, map[PagesState]string{
			Current: "Current true", Doubtful: "Doubtful false", Scheduled: "Scheduled false", Clearing: "Clearing false", Overtaken: "Overtaken false"}},
	}
	for _, e := range events {
		for s := Current; s <= Overtaken; s++ {
			want, may := e.next[s]
			if !may {
				continue
			}
			p := pagesIn(s)
			if p.State() != s {
				t.Fatalf("the test's %v is %v", s, p.State())
			}
			result := e.do(p)
			got := p.State().String()
			if result != nil {
				got = fmt.Sprint(got, " ", result)
			}
			if got != want {
				t.Errorf("%v, %s: %s, want %s", s, e.name, got, want)
			}
		}
	}
}

// TestWhatAnInvalidationCovers: a doubt is covered by an invalidation that starts
// after it, and by no other; the count may wrap.
func TestWhatAnInvalidationCovers(t *testing.T) {
	for _, before := range []uint32{0, ^uint32(0)} {
		p := Pages{doubts: before, cleared: before}
		p.Doubt()
		first := p.Ticket()
		p.Schedule()
		p.Doubt()
		second := p.Ticket()
		p.Start()
		p.Doubt()
		third := p.Ticket()
		if p.Covered(first) || p.Covered(second) || p.Covered(third) {
			t.Error("covered before it is done")
		}
		p.Done(1)
		if !p.Covered(first) || !p.Covered(second) || p.Covered(third) {
			t.Errorf("after %d: covered: %v %v %v", before, p.Covered(first), p.Covered(second), p.Covered(third))
		}
	}
}

// TestSizeIsLearnedAfterTheInvalidation: only a question asked after an
// invalidation has completed tells the kernel the size.
func TestSizeIsLearnedAfterTheInvalidation(t *testing.T) {
	var p Pages
	p.Told(7)
	if !p.Sized() {
		t.Error("a file that was never invalidated has a size that is not known")
	}
	p.Doubt()
	p.Schedule()
	p.Start()
	p.Done(10)
	p.Told(9)
	if p.Sized() {
		t.Error("a question from before told the size")
	}
	p.Told(10)
	p.Told(3)
	if !p.Sized() {
		t.Error("a question from after did not")
	}
}

// TestOpenSeesEachDoubtOnce: the open after a doubt drops the kernel's pages, the
// next one keeps them, whether or not they were invalidated in between.
func TestOpenSeesEachDoubtOnce(t *testing.T) {
	var p Pages
	for _, clear := range []bool{false, true} {
		p.Doubt()
		if clear {
			p.Schedule()
			p.Start()
			p.Done(1)
		}
		if p.Open() || !p.Open() {
			t.Errorf("invalidated %v: the doubt was not seen once", clear)
		}
	}
}
