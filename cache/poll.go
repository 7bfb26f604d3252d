package cache

import (
	"context"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// polls are the files that are open for reading. The kernel reads its cached pages
// without a request, and ignores attribute timeouts meanwhile (with
// FUSE_AUTO_INVAL_DATA it would heed them, and drop all pages of a file at each of
// our own writes). Attributes of these files are therefore revalidated when they
// have expired, and the pages are dropped if the file has changed.
type polls struct {
	mu    sync.Mutex
	files map[*Inode]*poll
}

type poll struct {
	i      *Inode
	cr     nfsclient.Cred // of the first opening
	opens  int
	asking bool
}

const (
	// maxPolls bounds the outstanding GETATTRs.
	maxPolls = 8
	// pollIntervalNoAC is how often files are revalidated whose attributes are never
	// fresh.
	pollIntervalNoAC = time.Second
)

// add registers an opening of i for reading.
func (p *polls) add(i *Inode, cr nfsclient.Cred) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[i]
	if f == nil {
		f = &poll{i: i, cr: cr}
		p.files[i] = f
	}
	f.opens++
}

// remove unregisters one.
func (p *polls) remove(i *Inode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[i]
	if f.opens--; f.opens == 0 {
		delete(p.files, i)
	}
}

// due returns the files whose attributes have expired, each pinned until done.
func (p *polls) due() (due []*poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.files {
		if !f.asking && i.expired() {
			f.asking = true
			i.refs.Add(1)
			due = append(due, f)
		}
	}
	return due
}

func (p *polls) done(f *poll) {
	p.mu.Lock()
	f.asking = false
	p.mu.Unlock()
	f.i.unpin()
}

// runPoll revalidates attributes that have expired. It ends with ctx; Close joins
// it.
func (c *Cache) runPoll(ctx context.Context) {
	interval := func() time.Duration {
		if d := c.policy.Load().AcRegMin / 2; d > 0 {
			return d
		}
		return pollIntervalNoAC
	}
	tick := time.NewTicker(interval())
	defer tick.Stop()
	slots := make(chan struct{}, maxPolls)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.repoll:
			tick.Reset(interval())
			continue
		case <-tick.C:
		}
		for _, f := range c.polls.due() {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
			}
			if ctx.Err() != nil || !c.spawn(func() { c.runAsk(ctx, f); <-slots }) {
				c.polls.done(f)
			}
		}
	}
}

// runAsk revalidates the attributes of one file.
func (c *Cache) runAsk(ctx context.Context, f *poll) {
	// The next call of a user returns the error, if it persists.
	_ = c.revalidate(ctx, f.cr, f.i)
	c.polls.done(f)
}

// expired reports whether the attributes have expired. While our own WRITEs are
// outstanding, their replies carry new ones.
func (i *Inode) expired() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.node.Changing() && !i.fresh(i.c.cfg.Now())
}
