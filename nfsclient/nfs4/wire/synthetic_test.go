package wire

import (
	"bytes"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// sample is a compound with its results, and what tshark has to say of it.
type sample struct {
	name string
	Compound
	// call and reply are fields of tshark's and values that they must have.
	call, reply []field
}

type field struct{ name, value string }

var (
	sampleStateid = Stateid{Seqid: 7, Other: [12]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	otherStateid  = Stateid{Seqid: 8, Other: [12]byte{0xa1, 0xa2, 0xa3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	sampleVerf    = nfsclient.Verifier{1, 2, 3, 4, 5, 6, 7, 8}
	sampleChange  = ChangeInfo{true, 1001, 1002}
	sampleSession = SessionID{0xf3, 0x22, 0, 0x6b, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	sampleChannel = Channel{MaxRequest: 135168, MaxResponse: 135169, MaxResponseCached: 512, MaxOps: 16, MaxRequests: 64}
	sampleImpl    = ImplID{true, "example.org", "rdmafs", Time{1700000000, 5}}
	sampleOwner   = Owner{0x1122334455667788, "owner of a lock"}
	sampleDenied  = Denied{Offset: 4096, Length: 512, Type: WriteLock, Owner: sampleOwner}
	createAttrs   = Attrs{Mask: BitmapOf(AttrSize, AttrMode), Size: 12345, Mode: 0o640}
	openArgs      = Open{Access: ShareBoth | WantNoDeleg, Owner: sampleOwner, Claim: ClaimNull, Name: "hello"}
	openRes       = Open{Stateid: sampleStateid, Change: sampleChange, ResFlags: OpenLocktypePosix, AttrSet: BitmapOf(AttrMode)}
)

// allAttrs has each attribute that this package has.
var allAttrs = Attrs{
	Mask: allAttrsMask(), SupportedAttrs: allAttrsMask(), Type: nfsclient.Regular, FHExpireType: 3, Change: 0x1122334455667788,
	Size: 98765, LinkSupport: true, SymlinkSupport: true, FSID: FSID{0x51, 0x52}, UniqueHandles: true, LeaseTime: 90,
	ACL: []ACE{{0, 0, 0x1601bf, "OWNER@"}, {1, 0x43, 0x12, "users@example.org"}}, ACLSupport: 15, CanSetTime: true, CasePreserving: true, ChownRestricted: true, Filehandle: "handle of a file",
	FileID: 0x31323334, FilesAvail: 11, FilesFree: 12, FilesTotal: 13,
	FSLocations: &FSLocations{Root: []string{"export", "a"}, Locations: []FSLocation{{[]string{"one", "two"}, []string{"x"}}}},
	Homogeneous: true, MaxFileSize: 1 << 62, MaxLink: 255, MaxName: 254, MaxRead: 1 << 20, MaxWrite: 1 << 19, Mode: 0o755,
	NoTrunc: true, NumLinks: 3, Owner: "1000", OwnerGroup: "users@example.org", RawDev: nfsclient.Device{Major: 8, Minor: 17},
	SpaceAvail: 21, SpaceFree: 22, SpaceTotal: 23, SpaceUsed: 24, TimeAccess: Time{1, 2}, TimeCreate: Time{3, 4}, TimeDelta: Time{0, 1},
	TimeAccessSet: SetTime{How: nfsclient.TimeServer}, TimeModifySet: SetTime{nfsclient.TimeClient, Time{-5, 6}},
	TimeMetadata: Time{7, 8}, TimeModify: Time{-1, 999999999}, MountedOnFileID: 99, FSLayoutTypes: []uint32{4, 1}, LayoutBlockSize: 4096,
	SuppAttrExclCreate: BitmapOf(AttrMode), CloneBlockSize: 4096, ChangeAttrType: 1, ModeUmask: ModeUmask{0o666, 0o22}, XattrSupport: true,
}

func allAttrsMask() (b Bitmap) {
	for n, size := range attrSizes {
		if size > 0 {
			b.Add(AttrNum(n))
		}
	}
	return b
}

// attrsBut is allAttrs without some attributes.
func attrsBut(without ...AttrNum) Attrs {
	a := allAttrs
	a.Mask = a.Mask.Without(BitmapOf(without...))
	return a
}

// one is a compound of minor version 2 that is carried out up to its last operation, which ends with st.
func one(name string, st Status, ops ...Operation) sample {
	ops = append([]Operation{&Sequence{Session: sampleSession, SequenceID: 41, Slot: 3, HighestSlot: 5, CacheThis: true,
		ResSession: sampleSession, ResSequenceID: 41, ResSlot: 3, ResHighestSlot: 63, TargetHighestSlot: 62, StatusFlags: SeqLeaseMoved}}, ops...)
	return sample{name: name, Compound: Compound{Minor: 2, Ops: ops, Status: st, Done: len(ops)}}
}

func alone(name string, op Operation) sample {
	return sample{name: name, Compound: Compound{Tag: "tagged", Minor: 1, Ops: []Operation{op}, Done: 1}}
}

func (s sample) says(call, reply []field) sample {
	s.call, s.reply = call, reply
	return s
}

func open(change func(*Open)) *Open {
	o := openArgs
	o.Stateid, o.Change, o.ResFlags, o.AttrSet = openRes.Stateid, openRes.Change, openRes.ResFlags, openRes.AttrSet
	change(&o)
	return &o
}

// samples are compounds of every operation, with each arm of the unions in them.
func samples() []sample {
	return []sample{
		alone("exchange_id", &ExchangeID{Verifier: sampleVerf, Owner: []byte("client owner"), Flags: ExchangeUseNonPNFS, Impl: sampleImpl,
			ClientID: 0x99, SequenceID: 17, ResFlags: ExchangeUseNonPNFS | ExchangeConfirmedR, ServerMinor: 3, ServerMajor: "major", ServerScope: "scope",
			ServerImpl: sampleImpl}).says(
			[]field{{"nfs.data", "636c69656e74206f776e6572"}, {"nfs.exchange_id.flags.non_pnfs", "1"}},
			[]field{{"nfs.clientid", "0x0000000000000099"}, {"nfs.seqid", "0x00000011"}, {"nfs.minorid4", "3"}, {"nfs.majorid4", "6d616a6f72"}, {"nfs.scope", "73636f7065"}, {"nfs.nii_domain4", "example.org"}}),
		alone("exchange_id mach_cred", &ExchangeID{Owner: []byte("x"), Protect: Protect{ProtectMachCred, Bitmap{1}, Bitmap{0, 2}},
			ResProtect: Protect{ProtectMachCred, Bitmap{}, Bitmap{3}}}),
		alone("create_session", &CreateSession{ClientID: 0x99, SequenceID: 17, Fore: sampleChannel, Back: Channel{MaxRequest: 4068, MaxRequests: 1, HasIRD: true, IRD: 9},
			CBProgram: 0x40000000, SecParms: []SecParms{{Flavor: AuthSys, Stamp: 5, Machine: "client", UID: 10, GID: 11, GIDs: []uint32{12, 13}}, {Flavor: AuthNone}},
			Session: sampleSession, ResSequenceID: 17, ResFlags: SessionConnBackChan, ResFore: sampleChannel, ResBack: sampleChannel}).says(
			[]field{{"nfs.clientid", "0x0000000000000099"}, {"nfs.maxreqsize4", "135168"}, {"nfs.maxrespsize4", "135169"}, {"nfs.maxreqs4", "64"}, {"nfs.cb_program", "0x40000000"}},
			[]field{{"nfs.session_id4", "f322006b05060708090a0b0c0d0e0f10"}, {"nfs.maxreqs4", "64"}}),
		alone("create_session gss", &CreateSession{SecParms: []SecParms{{Flavor: RPCSecGSS, Service: 2, HandleFromServer: "server", HandleOfOurs: "client"}}}),
		alone("bind_conn", &BindConnToSession{Session: sampleSession, Dir: BindForeOrBoth, ResSession: sampleSession, ResDir: BoundBoth}).says(
			[]field{{"nfs.session_id4", "f322006b05060708090a0b0c0d0e0f10"}}, nil),
		alone("destroy_session", &DestroySession{Session: sampleSession}),
		alone("destroy_clientid", &DestroyClientID{ClientID: 0x99}).says([]field{{"nfs.clientid", "0x0000000000000099"}}, nil),
		one("reclaim_complete", ErrCompleteAlready, &ReclaimComplete{}),
		one("getattr", OK, &PutFH{Handle: "abcde"}, &GetAttr{Want: allAttrs.Mask,
			Attrs: attrsBut(AttrTimeAccessSet, AttrTimeModifySet, AttrModeUmask)}).says(
			[]field{{"nfs.fh.length", "5"}},
			[]field{{"nfs.slotid", "3"}, {"nfs.fattr4.size", "98765"}, {"nfs.fattr4.fileid", "825373492"}, {"nfs.fattr4_owner", "1000"},
				{"nfs.fattr4_owner_group", "users@example.org"}, {"nfs.fattr4.mounted_on_fileid", "0x0000000000000063"}, {"nfs.fattr4_xattr_support", "1"}, {"nfs.fattr4.numlinks", "3"},
				{"nfs.fattr4.space_used", "24"}, {"nfs.fattr4.lease_time", "90"}, {"nfs.changeid4", "1234605616436508552"}}),
		one("verify", ErrNotSame, &PutFH{Handle: "abcd"}, &NVerify{Attrs: Attrs{Mask: BitmapOf(AttrChange), Change: 77}},
			&Verify{Attrs: Attrs{Mask: BitmapOf(AttrType, AttrMode), Type: nfsclient.Directory, Mode: 0o751}}),
		one("setattr", ErrAttrNotSupp, &PutFH{Handle: "abcd"}, &SetAttr{Stateid: sampleStateid, Attrs: Attrs{Mask: BitmapOf(AttrSize, AttrMode, AttrOwner, AttrTimeAccessSet, AttrTimeModifySet),
			Size: 5, Mode: 0o600, Owner: "12", TimeAccessSet: SetTime{How: nfsclient.TimeServer}, TimeModifySet: SetTime{nfsclient.TimeClient, Time{77, 8}}}, Done: BitmapOf(AttrMode)}).says(
			[]field{{"nfs.fattr4.size", "5"}, {"nfs.fattr4_owner", "12"}, {"nfs.set_it", "1"}}, nil),
		one("readdir", OK, &PutFH{Handle: "abcd"}, &ReadDir{Cookie: 3, Verifier: sampleVerf, DirCount: 1024, MaxCount: 4096, Want: BitmapOf(AttrFileID, AttrMountedOnFileID),
			ResVerifier: sampleVerf, Entries: []Entry{{4, "one", Attrs{Mask: BitmapOf(AttrFileID), FileID: 9}}, {5, "longer", Attrs{Mask: BitmapOf(AttrRdattrError), RdattrError: nfsclient.ErrIO}}}, EOF: true}).says(
			[]field{{"nfs.cookie4", "3"}, {"nfs.maxcount", "4096"}}, []field{{"nfs.name", "one"}, {"nfs.name", "longer"}, {"nfs.cookie4", "5"}, {"nfs.fattr4.fileid", "9"}}),
		one("lookup", OK, &PutRootFH{}, &Lookup{Name: "dir"}, &LookupP{}, &SaveFH{}, &RestoreFH{}, &Access{Want: 0x1ff, Supported: 0x1ff, Granted: 0x41}, &GetFH{Handle: "handle"}).says(
			[]field{{"nfs.pathname.component", "dir"}}, []field{{"nfs.fh.length", "6"}}),
		one("readlink", OK, &PutFH{Handle: "abcd"}, &ReadLink{Target: Inline([]byte("to/where"))}).says(nil, []field{{"nfs.symlink.linktext", "to/where"}}),
		one("read", OK, &PutFH{Handle: "abcd"}, &Read{Stateid: sampleStateid, Offset: 1 << 40, Count: 5, EOF: true, Data: Inline([]byte("hello"))}).says(
			[]field{{"nfs.offset4", "1099511627776"}, {"nfs.count4", "5"}, {"nfs.stateid.seqid", "7"}}, []field{{"nfs.eof", "1"}, {"nfs.read.data_length", "5"}}),
		one("write", OK, &PutFH{Handle: "abcd"}, &Write{Stateid: sampleStateid, Offset: 1 << 40, Stable: nfsclient.DataSync, Data: Inline([]byte("helloworld")), Count: 10,
			Committed: nfsclient.FileSync, Verifier: sampleVerf}).says(
			[]field{{"nfs.offset4", "1099511627776"}, {"nfs.write.data_length", "10"}, {"nfs.stable_how4", "1"}}, []field{{"nfs.count4", "10"}, {"nfs.stable_how4", "2"}, {"nfs.verifier4", "0x0102030405060708"}}),
		one("commit", OK, &PutFH{Handle: "abcd"}, &Commit{Offset: 4096, Count: 8192, Verifier: sampleVerf}).says([]field{{"nfs.offset4", "4096"}, {"nfs.count4", "8192"}}, []field{{"nfs.verifier4", "0x0102030405060708"}}),
		one("open", OK, &PutFH{Handle: "abcd"}, open(func(*Open) {})).says([]field{{"nfs.pathname.component", "hello"}, {"nfs.open4.share_access", "3"}},
			[]field{{"nfs.stateid.seqid", "7"}, {"nfs.changeid4.before", "1001"}, {"nfs.changeid4.after", "1002"}}),
		one("open unchecked", OK, open(func(o *Open) { o.Create, o.Mode, o.Attrs = true, Unchecked, createAttrs })).says([]field{{"nfs.fattr4.size", "12345"}, {"nfs.createmode4", "0"}}, nil),
		one("open guarded", OK, open(func(o *Open) { o.Create, o.Mode, o.Attrs = true, Guarded, createAttrs })),
		one("open exclusive", OK, open(func(o *Open) { o.Create, o.Mode, o.Verifier = true, Exclusive, sampleVerf })),
		one("open exclusive4_1", OK, open(func(o *Open) { o.Create, o.Mode, o.Attrs, o.Verifier = true, Exclusive1, createAttrs, sampleVerf })).says(
			[]field{{"nfs.createmode4", "3"}, {"nfs.verifier4", "0x0102030405060708"}, {"nfs.fattr4.size", "12345"}}, nil),
		one("open previous", OK, open(func(o *Open) { o.Claim, o.Name, o.DelegType = ClaimPrevious, "", DelegWrite })),
		one("open delegate_cur", OK, open(func(o *Open) { o.Claim, o.DelegStateid = ClaimDelegateCur, otherStateid })),
		one("open delegate_prev", OK, open(func(o *Open) { o.Claim = ClaimDelegatePrev })),
		one("open fh", OK, open(func(o *Open) { o.Claim, o.Name = ClaimFH, "" })).says([]field{{"nfs.open.claim_type", "4"}}, nil),
		one("open deleg_cur_fh", OK, open(func(o *Open) { o.Claim, o.Name, o.DelegStateid = ClaimDelegCurFH, "", otherStateid })),
		one("open deleg_prev_fh", OK, open(func(o *Open) { o.Claim, o.Name = ClaimDelegPrevFH, "" })),
		one("open read delegation", OK, open(func(o *Open) {
			o.Delegation = Delegation{Type: DelegRead, Stateid: otherStateid, Recall: true, ACE: ACE{0, 1, 2, "EVERYONE@"}}
		})).says(nil, []field{{"nfs.open.delegation_type", "1"}, {"nfs.who", "EVERYONE@"}}),
		one("open write delegation", OK, open(func(o *Open) {
			o.Delegation = Delegation{Type: DelegWrite, Stateid: otherStateid, LimitBy: LimitSize, Limit: 1 << 30, ACE: ACE{0, 1, 2, "OWNER@"}}
		})).says(nil, []field{{"nfs.open.delegation_type", "2"}, {"nfs.who", "OWNER@"}}),
		one("open write delegation by blocks", OK, open(func(o *Open) {
			o.Delegation = Delegation{Type: DelegWrite, LimitBy: LimitBlocks, Limit: 5<<32 | 512}
		})),
		one("open no delegation", OK, open(func(o *Open) { o.Delegation = Delegation{Type: DelegNoneExt, Why: 0} })),
		one("open contention", OK, open(func(o *Open) { o.Delegation = Delegation{Type: DelegNoneExt, Why: whyContention, Will: true} })),
		one("open fails", nfsclient.ErrNoEnt, open(func(*Open) {})),
		one("open_downgrade", OK, &OpenDowngrade{Stateid: sampleStateid, Seqid: 1, Access: 1, ResStateid: otherStateid}),
		one("close", OK, &PutFH{Handle: "abcd"}, &Close{Stateid: sampleStateid, ResStateid: otherStateid}).says([]field{{"nfs.stateid.seqid", "7"}}, nil),
		one("delegreturn", OK, &PutFH{Handle: "abcd"}, &DelegReturn{Stateid: sampleStateid}),
		one("lock new", OK, &Lock{Type: WriteLockWait, Offset: 5, Length: ToEnd, New: true, OpenStateid: sampleStateid, Owner: sampleOwner, Stateid: otherStateid}).says(
			[]field{{"nfs.locktype4", "4"}, {"nfs.lock.locker.new_lock_owner", "1"}, {"nfs.offset4", "5"}}, []field{{"nfs.stateid.seqid", "8"}}),
		one("lock again", OK, &Lock{Type: ReadLock, Reclaim: true, Length: 1, LockStateid: sampleStateid, Stateid: otherStateid}).says([]field{{"nfs.lock.reclaim", "1"}}, nil),
		one("lock denied", ErrDenied, &Lock{Type: ReadLock, Length: 1, LockStateid: sampleStateid, Denied: sampleDenied}).says(nil, []field{{"nfs.offset4", "4096"}, {"nfs.length4", "512"}}),
		one("lock fails", ErrGrace, &Lock{Type: ReadLock, Length: 1}),
		one("lockt", OK, &LockT{Type: WriteLock, Offset: 9, Length: 10, Owner: sampleOwner}).says([]field{{"nfs.length4", "10"}}, nil),
		one("lockt denied", ErrDenied, &LockT{Type: WriteLock, Offset: 9, Length: 10, Owner: sampleOwner, Denied: sampleDenied}).says(nil, []field{{"nfs.length4", "512"}}),
		one("locku", OK, &LockU{Type: WriteLock, Stateid: sampleStateid, Length: 3, ResStateid: otherStateid}).says(nil, []field{{"nfs.stateid.seqid", "8"}}),
		one("create dir", OK, &Create{Type: nfsclient.Directory, Name: "d", Attrs: createAttrs, Change: sampleChange, AttrSet: BitmapOf(AttrMode)}).says([]field{{"nfs.pathname.component", "d"}}, []field{{"nfs.changeid4.after", "1002"}}),
		one("create symlink", OK, &Create{Type: nfsclient.SymbolicLink, Target: Inline([]byte("target")), Name: "s", Attrs: createAttrs}).says([]field{{"nfs.pathname.component", "s"}}, nil),
		one("create device", OK, &Create{Type: nfsclient.CharDevice, Dev: nfsclient.Device{Major: 1, Minor: 3}, Name: "null", Attrs: createAttrs}).says([]field{{"nfs.specdata1", "1"}, {"nfs.specdata2", "3"}}, nil),
		one("create fifo", OK, &Create{Type: nfsclient.FIFO, Name: "f"}),
		one("remove", OK, &Remove{Name: "gone", changeRes: changeRes{sampleChange}}).says([]field{{"nfs.pathname.component", "gone"}}, []field{{"nfs.changeid4.before", "1001"}}),
		one("rename", OK, &Rename{From: "old", To: "new", FromDir: sampleChange, ToDir: sampleChange}).says([]field{{"nfs.pathname.component", "old"}, {"nfs.pathname.component", "new"}}, []field{{"nfs.changeid4.before", "1001"}}),
		one("link", OK, &Link{Name: "second", changeRes: changeRes{sampleChange}}).says([]field{{"nfs.pathname.component", "second"}}, nil),
		one("test_stateid", OK, &TestStateID{Stateids: []Stateid{sampleStateid, otherStateid}, Statuses: []Status{OK, ErrExpired}}).says([]field{{"nfs.stateid.seqid", "8"}}, nil),
		one("free_stateid", ErrLocksHeld, &FreeStateID{Stateid: sampleStateid}),
		one("secinfo", OK, &SecInfo{Name: "x", flavorsRes: flavorsRes{[]Flavor{{Flavor: RPCSecGSS, OID: "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02", Service: 3}, {Flavor: AuthSys}}}}).says(
			[]field{{"nfs.pathname.component", "x"}}, []field{{"nfs.secinfo.flavor", "1"}}),
		one("secinfo_no_name", OK, &SecInfoNoName{Parent: true, flavorsRes: flavorsRes{[]Flavor{{Flavor: AuthSys}}}}),
		one("seek", OK, &Seek{Stateid: sampleStateid, Offset: 4096, Hole: true, EOF: true, At: 8192}).says([]field{{"nfs.offset4", "4096"}}, []field{{"nfs.offset4", "8192"}}),
		one("allocate", OK, &Allocate{Stateid: sampleStateid, Offset: 1, Length: 2}).says([]field{{"nfs.length4", "2"}}, nil),
		one("deallocate", OK, &Deallocate{Stateid: sampleStateid, Offset: 1, Length: 2}).says([]field{{"nfs.length4", "2"}}, nil),
		one("copy", OK, &Copy{From: sampleStateid, To: otherStateid, FromOffset: 1, ToOffset: 2, Count: 3, Consecutive: true, Synchronous: true,
			Copied: 3, Committed: nfsclient.FileSync, Verifier: sampleVerf, ResConsecutive: true, ResSynchronous: true}).says(
			[]field{{"nfs.length4", "3"}}, []field{{"nfs.verifier4", "0x0102030405060708"}}),
		one("copy between servers", OK, &Copy{Sources: []NetLoc{{Type: NetLocName, Name: "other"}, {Type: NetLocAddr, NetID: "tcp", Addr: "127.0.0.1.8.1"}},
			HasCallback: true, Callback: sampleStateid, Committed: nfsclient.Unstable}),
		one("copy has requirements", ErrOffloadNoReqs, &Copy{ResSynchronous: true}),
		one("offload_status", OK, &OffloadStatus{Stateid: sampleStateid, Copied: 77, Complete: true, Outcome: nfsclient.ErrIO}).says(nil, []field{{"nfs.length4", "77"}}),
		one("offload_cancel", OK, &OffloadCancel{Stateid: sampleStateid}).says([]field{{"nfs.stateid.seqid", "7"}}, nil),
		one("clone", OK, &Clone{From: sampleStateid, To: otherStateid, FromOffset: 4096, ToOffset: 8192, Count: 512}).says([]field{{"nfs.length4", "512"}}, nil),
		one("getxattr", OK, &GetXattr{Name: "colour", Value: []byte("blue")}).says([]field{{"nfs.xattr.key", "colour"}}, []field{{"nfs.data", "626c7565"}}),
		one("setxattr", OK, &SetXattr{How: nfsclient.XattrReplace, Name: "colour", Value: []byte("green"), changeRes: changeRes{sampleChange}}).says(
			[]field{{"nfs.xattr.key", "colour"}, {"nfs.setxattr.options", "2"}}, []field{{"nfs.changeid4.after", "1002"}}),
		one("listxattrs", OK, &ListXattrs{Cookie: 1, MaxCount: 512, ResCookie: 9, Names: []string{"colour", "size"}, EOF: true}).says(
			[]field{{"nfs.lisxtattr.cookie", "1"}}, []field{{"nfs.xattr.key", "size"}, {"nfs.lisxtattr.cookie", "9"}}),
		one("removexattr", ErrNoXattr, &RemoveXattr{Name: "colour"}).says([]field{{"nfs.xattr.key", "colour"}}, nil),
		one("illegal", ErrOpIllegal, &RemoveXattr{Name: "colour"}),
		{name: "minor version mismatch", Compound: Compound{Minor: 2, Ops: []Operation{&PutRootFH{}}, Status: ErrMinorVersMismatch}},
		{name: "ends early", Compound: Compound{Minor: 2, Ops: []Operation{&PutRootFH{}, &GetFH{}, &SaveFH{}}, Status: ErrWrongSec, Done: 1}},
	}
}

func TestSamples(t *testing.T) {
	seen := map[Op]bool{}
	for _, s := range samples() {
		x := encode(&s.Compound)
		c, err := roundTrip(x)
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		if c.Done != s.Done || c.Status != s.Status || c.Minor != s.Minor || c.Tag != s.Tag {
			t.Errorf("%s: became %+v", s.name, c)
		}
		for _, o := range c.Ops {
			seen[o.Op()] = true
		}
		t.Run(s.name, func(t *testing.T) { truncations(t, x) })
	}
	for n, k := range operations {
		if k.make != nil && !seen[Op(n)] {
			t.Errorf("no sample of %s", k.name)
		}
	}
}

// Operations that hold another exchange's arguments and results decode to the same as new ones.
func TestReuse(t *testing.T) {
	all := golden(t)
	for _, s := range samples() {
		all = append(all, encode(&s.Compound))
	}
	last := map[string]*Compound{}
	for _, x := range all {
		c, err := x.decode()
		if err != nil {
			t.Fatal(err)
		}
		used := last[names(c)]
		last[names(c)] = c
		if used == nil {
			continue
		}
		used.Tag, used.Minor = c.Tag, c.Minor
		var r xdr.Reader
		r.Reset(x.call, nil)
		r.String(MaxTag)
		r.Uint64() // minor version and number of operations
		for _, o := range used.Ops {
			r.Uint32()
			o.ParseArgs(&r)
		}
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if err := decodeRes(used, x.reply); err != nil {
			t.Fatal(err)
		}
		if again, fresh := encode(used), encode(c); !bytes.Equal(again.call, x.call) || !bytes.Equal(again.reply, fresh.reply) {
			t.Errorf("%s: used operations encode to\n%x instead of\n%x", names(c), again, fresh)
		}
	}
}
