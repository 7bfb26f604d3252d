package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// TestTshark has tshark, which shares no code with the project, read what is encoded:
// the same operations, nothing malformed, and the values that the samples name.
func TestTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skipf("needs tshark (make setup): %v", err)
	}
	list := samples()
	for i, x := range golden(t) {
		c, err := x.decode()
		if err != nil {
			t.Fatal(err)
		}
		g := sample{name: fmt.Sprintf("golden %d", i), Compound: *c}
		for k, o := range c.Ops {
			st, answered := c.Outcome(k)
			call, reply := reading(o, answered && st == OK)
			g.call, g.reply = append(g.call, call...), append(g.reply, reply...)
		}
		list = append(list, g)
	}
	asked := []string{"_ws.malformed", "_ws.expert.message", "nfs.opcode", "nfs.nfsstat4", "nfs.ops.count"}
	for _, s := range list {
		for _, f := range slices.Concat(s.call, s.reply) {
			if !slices.Contains(asked, f.name) {
				asked = append(asked, f.name)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "samples.pcap")
	if err := os.WriteFile(file, record(list), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-r", file, "-T", "fields", "-E", "separator=/t", "-E", "aggregator=|"}
	for _, f := range asked {
		args = append(args, "-e", f)
	}
	cmd := exec.Command(tshark, args...)
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, says.String())
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != 2*len(list) {
		t.Fatalf("tshark read %d messages of %d", len(lines), 2*len(list))
	}
	for i, s := range list {
		for k, what := range []string{"call", "reply"} {
			got := map[string][]string{}
			for j, v := range strings.Split(lines[2*i+k], "\t") {
				if v != "" {
					got[asked[j]] = strings.Split(v, "|")
				}
			}
			expected, done := s.call, len(s.Ops)
			if k == 1 {
				expected, done = s.reply, s.Done
			}
			var ops []string
			for _, o := range s.Ops[:done] {
				n := o.Op()
				if k == 1 && s.Status == ErrOpIllegal && len(ops) == done-1 {
					n = OpIllegal
				}
				ops = append(ops, fmt.Sprint(uint32(n)))
			}
			// tshark shows the operations of a Protect as operations.
			read := got["nfs.opcode"]
			if _, protects := s.Ops[0].(*ExchangeID); protects && len(read) > 1 {
				read = read[:1]
			}
			if got["_ws.malformed"] != nil || !slices.Equal(read, ops) {
				t.Errorf("%s: tshark reads in the %s operations %v instead of %v, malformed: %v, %v", s.name, what, got["nfs.opcode"], ops, got["_ws.malformed"] != nil, got["_ws.expert.message"])
			}
			for _, f := range expected {
				if !slices.Contains(got[f.name], f.value) {
					t.Errorf("%s: tshark reads in the %s %s %q, not %q", s.name, what, f.name, got[f.name], f.value)
				}
			}
		}
	}
}

// reading is what tshark must read in an operation, by what was decoded.
func reading(op Operation, ok bool) (call, reply []field) {
	num := func(name string, v uint64) field { return field{name, strconv.FormatUint(v, 10)} }
	name := func(s string) field { return field{"nfs.pathname.component", s} }
	change := func(c ChangeInfo) []field {
		return []field{num("nfs.changeid4.before", c.Before), num("nfs.changeid4.after", c.After)}
	}
	switch o := op.(type) {
	case *Sequence:
		call = []field{num("nfs.slotid", uint64(o.Slot))}
		reply = []field{num("nfs.slotid", uint64(o.ResSlot)), num("nfs.high_slotid", uint64(o.ResHighestSlot))}
	case *PutFH:
		call = []field{num("nfs.fh.length", uint64(len(o.Handle)))}
	case *GetFH:
		reply = []field{num("nfs.fh.length", uint64(len(o.Handle)))}
	case *Lookup:
		call = []field{name(o.Name)}
	case *Create:
		call, reply = []field{name(o.Name)}, change(o.Change)
	case *Remove:
		call, reply = []field{name(o.Name)}, change(o.Change)
	case *Link:
		call, reply = []field{name(o.Name)}, change(o.Change)
	case *Rename:
		call, reply = []field{name(o.From), name(o.To)}, append(change(o.FromDir), change(o.ToDir)...)
	case *Open:
		call = []field{num("nfs.open4.share_access", uint64(o.Access&ShareBoth)), num("nfs.open.claim_type", uint64(o.Claim))}
		if o.Claim == ClaimNull {
			call = append(call, name(o.Name))
		}
		reply = append(change(o.Change), num("nfs.stateid.seqid", uint64(o.Stateid.Seqid)), num("nfs.open.delegation_type", uint64(o.Delegation.Type)))
	case *Close:
		call = []field{num("nfs.stateid.seqid", uint64(o.Stateid.Seqid))}
	case *Read:
		call = []field{num("nfs.offset4", o.Offset), num("nfs.count4", uint64(o.Count))}
		reply = []field{num("nfs.read.data_length", uint64(o.Data.Len))}
	case *Write:
		call = []field{num("nfs.offset4", o.Offset), num("nfs.write.data_length", uint64(o.Data.Len)), num("nfs.stable_how4", uint64(o.Stable))}
		reply = []field{num("nfs.count4", uint64(o.Count)), {"nfs.verifier4", fmt.Sprintf("%#x", o.Verifier)}}
	case *Lock:
		call = []field{num("nfs.locktype4", uint64(o.Type)), num("nfs.offset4", o.Offset), num("nfs.length4", o.Length)}
		reply = []field{num("nfs.stateid.seqid", uint64(o.Stateid.Seqid))}
	case *Copy:
		call = []field{num("nfs.offset4", o.FromOffset), num("nfs.offset4", o.ToOffset), num("nfs.length4", o.Count)}
	case *ReadDir:
		call = []field{num("nfs.cookie4", o.Cookie), num("nfs.maxcount", uint64(o.MaxCount))}
		for _, e := range o.Entries {
			reply = append(reply, field{"nfs.name", e.Name}, num("nfs.cookie4", e.Cookie))
		}
	case *SetXattr:
		call, reply = []field{{"nfs.xattr.key", o.Name}}, change(o.Change)
	case *GetAttr:
		for n, f := range map[AttrNum]field{
			AttrChange: num("nfs.changeid4", o.Attrs.Change), AttrSize: num("nfs.fattr4.size", o.Attrs.Size), AttrFileID: num("nfs.fattr4.fileid", o.Attrs.FileID),
			AttrNumLinks: num("nfs.fattr4.numlinks", uint64(o.Attrs.NumLinks)), AttrOwner: {"nfs.fattr4_owner", o.Attrs.Owner},
			AttrOwnerGroup: {"nfs.fattr4_owner_group", o.Attrs.OwnerGroup}, AttrSpaceUsed: num("nfs.fattr4.space_used", o.Attrs.SpaceUsed),
			AttrMaxRead: num("nfs.fattr4.maxread", o.Attrs.MaxRead), AttrLeaseTime: num("nfs.fattr4.lease_time", uint64(o.Attrs.LeaseTime)),
		} {
			if o.Attrs.Has(n) {
				reply = append(reply, f)
			}
		}
	}
	if !ok {
		reply = nil
	}
	return call, reply
}

// record is a pcap file of the samples as RPC over TCP, each exchange in a connection of
// its own.
func record(list []sample) []byte {
	le := binary.LittleEndian
	file := pcapHeader()
	for i, s := range list {
		for reply, from := range []uint16{uint16(50000 + i), 2049} {
			var w xdr.Writer
			xid := uint32(1000 + i)
			if reply == 0 {
				for _, v := range []uint32{xid, 0, 2, Program, Version, ProcCompound, 0, 0, 0, 0} {
					w.Uint32(v)
				}
				s.AppendArgs(&w)
			} else {
				for _, v := range []uint32{xid, 1, 0, 0, 0, 0} {
					w.Uint32(v)
				}
				s.AppendRes(&w)
			}
			packet := tcpPacket(from, uint16(50000+i)+2049-from, byte(1+reply), byte(2-reply), w.Bytes())
			file = le.AppendUint32(file, uint32(i))
			file = le.AppendUint32(file, uint32(reply))
			file = le.AppendUint32(file, uint32(len(packet)))
			file = le.AppendUint32(file, uint32(len(packet)))
			file = append(file, packet...)
		}
	}
	return file
}

func pcapHeader() []byte {
	le := binary.LittleEndian
	file := le.AppendUint32(nil, 0xa1b2c3d4)
	file = le.AppendUint16(file, 2)
	file = le.AppendUint16(file, 4)
	file = append(file, make([]byte, 8)...)
	file = le.AppendUint32(file, 1<<18)
	return le.AppendUint32(file, 1) // Ethernet
}

// tcpPacket is a record of RPC, alone in a packet from host src to host dst.
func tcpPacket(from, to uint16, src, dst byte, record []byte) []byte {
	be := binary.BigEndian
	tcp := be.AppendUint16(nil, from)
	tcp = be.AppendUint16(tcp, to)
	tcp = be.AppendUint32(tcp, 1) // sequence number
	tcp = be.AppendUint32(tcp, 1)
	tcp = append(tcp, 5<<4, 0x18, 255, 255, 0, 0, 0, 0)
	tcp = be.AppendUint32(tcp, 1<<31|uint32(len(record)))
	tcp = append(tcp, record...)
	ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, src, 10, 0, 0, dst}
	be.PutUint16(ip[2:], uint16(len(ip)+len(tcp)))
	return slices.Concat(make([]byte, 12), []byte{8, 0}, ip, tcp)
}
