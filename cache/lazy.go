package cache

import (
	"sync"

	"github.com/rdmafs/rdmafs/cache/coherence"
	"github.com/rdmafs/rdmafs/cache/writeback"
	"github.com/rdmafs/rdmafs/nfsclient"
)

// What only some inodes need stands apart, and is allocated when it is first
// needed. Before, an inode points to what all such inodes share, which is empty
// and stays so: it may be read like an own one, and Inode.own… comes before the
// first change. Once own, it stays with the inode, so that it may be referred to
// while mu is released; reading goes with the last span.

var (
	neverWritten written
	neverDoubted coherence.Pages
	notReading   spans
	neverUsed    = used{written: &neverWritten, pages: &neverDoubted, spans: &notReading}
)

// used is for inodes that have names, were opened or are waited for; Inode.mu guards it.
type used struct {
	// wake is closed and replaced when waiters should look again; nil while there
	// are none.
	wake chan struct{}
	// pages is what the kernel has; neverDoubted until the first doubt.
	pages *coherence.Pages
	acl   *nfsclient.ACL // with aclListed
	opens int
	silly *silly

	names    *nameTable // directories; nil: none
	*written            // regular files
	spans    *spans     // likewise: READs under way, and what was read ahead
}

// spansPool has empty spans that no inode owns.
var spansPool = sync.Pool{New: func() any { return new(spans) }}

// own comes before any change of used; mu is held.
func (i *Inode) own() {
	if i.used == &neverUsed {
		u := neverUsed
		i.used = &u
	}
}

// ownWritten comes before the first write or truncation; mu is held.
func (i *Inode) ownWritten() {
	if i.written == &neverWritten {
		i.own()
		i.written = &written{wb: writeback.Make(&i.c.wbConfig, (*wbOwner)(i))}
	}
}

// ownPages comes before the first doubt; mu is held.
func (i *Inode) ownPages() {
	if i.pages == &neverDoubted {
		i.own()
		i.pages = new(coherence.Pages)
	}
}

// ownSpans comes before a span is added; mu is held.
func (i *Inode) ownSpans() {
	if i.spans == &notReading {
		i.own()
		i.spans = spansPool.Get().(*spans)
	}
}

// disownSpans comes when spans may have gone; mu is held.
func (i *Inode) disownSpans() {
	if i.spans.Len() == 0 && i.spans != &notReading {
		spansPool.Put(i.spans)
		i.spans = &notReading
	}
}
