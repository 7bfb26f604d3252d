package wire

import (
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// The reply bounds are those of the largest results that can be encoded.
func TestReplyBoundsAreExact(t *testing.T) {
	fh := nfsclient.Handle(strings.Repeat("h", MaxHandle))
	attr := PostAttr{Set: true}
	wcc := Wcc{Before: PreAttr{Set: true}, After: attr}
	made := &MadeRes{Handle: PostHandle{Set: true, Handle: fh}, Attr: attr, Dir: wcc}
	for name, c := range map[string]struct {
		m   Message
		max int
	}{
		"null":     {&Void{}, NullReplyMax},
		"getattr":  {&GetAttrRes{}, GetAttrReplyMax},
		"setattr":  {&WccRes{Wcc: wcc}, SetAttrReplyMax},
		"lookup":   {&LookupRes{Handle: fh, Attr: attr, Dir: attr}, LookupReplyMax},
		"access":   {&AccessRes{Attr: attr}, AccessReplyMax},
		"readlink": {&ReadLinkRes{Attr: attr}, ReadLinkReplyMax},
		"read":     {&ReadRes{Attr: attr}, ReadReplyMax},
		"write":    {&WriteRes{Wcc: wcc}, WriteReplyMax},
		"create":   {made, CreateReplyMax},
		"mkdir":    {made, MkdirReplyMax},
		"symlink":  {made, SymlinkReplyMax},
		"mknod":    {made, MknodReplyMax},
		"remove":   {&WccRes{Wcc: wcc}, RemoveReplyMax},
		"rmdir":    {&WccRes{Wcc: wcc}, RmdirReplyMax},
		"rename":   {&RenameRes{FromDir: wcc, ToDir: wcc}, RenameReplyMax},
		"link":     {&LinkRes{Attr: attr, Dir: wcc}, LinkReplyMax},
		"readdir":  {&ReadDirRes{Dir: attr}, ReadDirReplyMax(0)},
		"fsstat":   {&FSStatRes{Attr: attr}, FSStatReplyMax},
		"fsinfo":   {&FSInfoRes{Attr: attr}, FSInfoReplyMax},
		"pathconf": {&PathConfRes{Attr: attr}, PathConfReplyMax},
		"commit":   {&CommitRes{Wcc: wcc}, CommitReplyMax},
		"getacl":   {&GetACLRes{Attr: attr, ACLs: ACLs{Access: make([]ACLEntry, nfsclient.MaxACL), Default: make([]ACLEntry, nfsclient.MaxACL)}}, GetACLReplyMax},
		"few acls": {&GetACLRes{Attr: attr, ACLs: ACLs{Access: make([]ACLEntry, FewACLs)}}, ShortACLReplyMax},
		"setacl":   {&SetACLRes{Attr: attr}, SetACLReplyMax},
		"mnt":      {&MntRes{Handle: fh, Flavors: make([]uint32, MaxFlavors)}, MountMntReplyMax},
		"getport":  {&GetPortRes{}, GetPortReplyMax},
		"getaddr":  {&GetAddrRes{Addr: strings.Repeat("a", MaxUniversalAddr)}, GetAddrReplyMax},
	} {
		var w xdr.Writer
		c.m.Append(&w)
		if w.Len() != c.max {
			t.Errorf("%s: largest results have %d bytes, bound is %d", name, w.Len(), c.max)
		}
	}
}

// A server fills a directory part by Entry.Size, which must be what an entry
// really adds.
func TestEntrySize(t *testing.T) {
	for _, e := range []Entry{
		{Name: "a"}, {Name: "abcd"}, {Name: "abcde", Attr: PostAttr{Set: true}},
		{Name: "x", Handle: PostHandle{Set: true, Handle: "12345"}},
		{Name: "xy", Attr: PostAttr{Set: true}, Handle: PostHandle{Set: true, Handle: "1234"}},
	} {
		for _, plus := range []bool{false, true} {
			var without, with xdr.Writer
			(&ReadDirRes{Plus: plus}).Append(&without)
			(&ReadDirRes{Plus: plus, Entries: []Entry{e}}).Append(&with)
			if got := with.Len() - without.Len(); got != e.Size(plus) {
				t.Errorf("%q plus %v: adds %d bytes, Size says %d", e.Name, plus, got, e.Size(plus))
			}
		}
	}
}
