package wire

import (
	"fmt"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// messageKey names one kind of message.
type messageKey struct {
	prog, vers, proc uint32
	reply            bool
}

func (k messageKey) String() string {
	what := "call"
	if k.reply {
		what = "reply"
	}
	return fmt.Sprintf("program %d version %d procedure %d %s", k.prog, k.vers, k.proc, what)
}

// newMessage is an empty message of a kind, or nil for programs that are not
// ours.
func newMessage(k messageKey) Message {
	var pair [2]func() Message
	switch {
	case k.prog == NFSProgram && k.vers == NFSVersion && int(k.proc) < len(nfsMessages):
		pair = nfsMessages[k.proc]
	case k.prog == ACLProgram && k.vers == ACLVersion && int(k.proc) < len(aclMessages):
		pair = aclMessages[k.proc]
	case k.prog == MountProgram && k.vers == MountVersion && int(k.proc) < len(mountMessages):
		pair = mountMessages[k.proc]
	case k.prog == RpcbindProgram && k.vers == PortmapVersion && k.proc == PortmapGetPort:
		pair = [2]func() Message{message[GetPortArgs](), message[GetPortRes]()}
	case k.prog == RpcbindProgram && (k.vers == RpcbindV3 || k.vers == RpcbindV4) && k.proc == RpcbindGetAddr:
		pair = [2]func() Message{message[Rpcb](), message[GetAddrRes]()}
	case k.prog == RpcbindProgram && (k.vers == RpcbindV3 || k.vers == RpcbindV4) && (k.proc == RpcbindSet || k.proc == RpcbindUnset):
		pair = [2]func() Message{message[Rpcb](), message[SetRes]()}
	case k.prog == RpcbindProgram && (k.vers == RpcbindV3 || k.vers == RpcbindV4) && k.proc == RpcbindDump:
		pair = [2]func() Message{message[Void](), message[RpcbList]()}
	case k.prog == RpcbindProgram && k.proc == PortmapNull:
		pair = [2]func() Message{message[Void](), message[Void]()}
	default:
		return nil
	}
	if k.reply {
		return pair[1]()
	}
	return pair[0]()
}

func message[T any, P interface {
	*T
	Message
}]() func() Message {
	return func() Message { return P(new(T)) }
}

func plus() Message { return &ReadDirRes{Plus: true} }

var nfsMessages = [...][2]func() Message{
	ProcNull:        {message[Void](), message[Void]()},
	ProcGetAttr:     {message[HandleArgs](), message[GetAttrRes]()},
	ProcSetAttr:     {message[SetAttrArgs](), message[WccRes]()},
	ProcLookup:      {message[DirOp](), message[LookupRes]()},
	ProcAccess:      {message[AccessArgs](), message[AccessRes]()},
	ProcReadLink:    {message[HandleArgs](), message[ReadLinkRes]()},
	ProcRead:        {message[ReadArgs](), message[ReadRes]()},
	ProcWrite:       {message[WriteArgs](), message[WriteRes]()},
	ProcCreate:      {message[CreateArgs](), message[MadeRes]()},
	ProcMkdir:       {message[MkdirArgs](), message[MadeRes]()},
	ProcSymlink:     {message[SymlinkArgs](), message[MadeRes]()},
	ProcMknod:       {message[MknodArgs](), message[MadeRes]()},
	ProcRemove:      {message[DirOp](), message[WccRes]()},
	ProcRmdir:       {message[DirOp](), message[WccRes]()},
	ProcRename:      {message[RenameArgs](), message[RenameRes]()},
	ProcLink:        {message[LinkArgs](), message[LinkRes]()},
	ProcReadDir:     {message[ReadDirArgs](), message[ReadDirRes]()},
	ProcReadDirPlus: {message[ReadDirPlusArgs](), plus},
	ProcFSStat:      {message[HandleArgs](), message[FSStatRes]()},
	ProcFSInfo:      {message[HandleArgs](), message[FSInfoRes]()},
	ProcPathConf:    {message[HandleArgs](), message[PathConfRes]()},
	ProcCommit:      {message[CommitArgs](), message[CommitRes]()},
}

var aclMessages = [...][2]func() Message{
	ACLNull: {message[Void](), message[Void]()},
	ACLGet:  {message[GetACLArgs](), message[GetACLRes]()},
	ACLSet:  {message[SetACLArgs](), message[SetACLRes]()},
}

var mountMessages = [...][2]func() Message{
	MountNull:    {message[Void](), message[Void]()},
	MountMnt:     {message[PathArgs](), message[MntRes]()},
	MountDump:    {message[Void](), message[DumpRes]()},
	MountUmnt:    {message[PathArgs](), message[Void]()},
	MountUmntAll: {message[Void](), message[Void]()},
	MountExport:  {message[Void](), message[ExportRes]()},
}

// decode parses all of body as a message of kind k.
func decode(k messageKey, body []byte) (Message, error) {
	m := newMessage(k)
	var r xdr.Reader
	r.Reset(body, nil)
	m.Parse(&r)
	return m, r.End()
}
