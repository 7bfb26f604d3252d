package wire

import (
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// CBRecall is CB_RECALL (RFC 8881 section 20.2): the server wants a delegation back.
type CBRecall struct {
	noRes
	Stateid Stateid
	// Truncate: the file is about to be truncated to nothing, so that dirty data need not be written.
	Truncate bool
	Handle   nfsclient.Handle
}

func (*CBRecall) Op() CBOp { return OpCBRecall }

func (o *CBRecall) AppendArgs(w *xdr.Writer) {
	o.Stateid.append(w)
	w.Bool(o.Truncate)
	appendHandle(w, o.Handle)
}

func (o *CBRecall) ParseArgs(r *xdr.Reader) {
	o.Stateid.parse(r)
	o.Truncate = r.Bool()
	parseHandle(r, &o.Handle)
}

// CBGetAttr is CB_GETATTR (section 20.1): what the holder of a write delegation knows of the file.
type CBGetAttr struct {
	Handle nfsclient.Handle
	Want   Bitmap
	// Results.
	Attrs Attrs
}

func (*CBGetAttr) Op() CBOp { return OpCBGetAttr }

func (o *CBGetAttr) AppendArgs(w *xdr.Writer) {
	appendHandle(w, o.Handle)
	o.Want.append(w)
}

func (o *CBGetAttr) ParseArgs(r *xdr.Reader) {
	parseHandle(r, &o.Handle)
	o.Want.parse(r)
}

func (o *CBGetAttr) AppendRes(w *xdr.Writer, st Status) {
	if st == OK {
		o.Attrs.append(w)
	}
}

func (o *CBGetAttr) ParseRes(r *xdr.Reader, st Status) {
	if st == OK {
		o.Attrs.parse(r)
	}
}

func (o *CBGetAttr) ReplyMax() int { return sizeOp + attrsMax(o.Want) }

// Bits of CBRecallAny.Types (section 20.6.2).
const (
	RecallAnyReadDeleg  = 0
	RecallAnyWriteDeleg = 1
	RecallAnyDirDeleg   = 2
)

// CBRecallAny is CB_RECALL_ANY (section 20.6): the client is to give back what it chooses, until
// it has no more than Keep recallable objects of the given types.
type CBRecallAny struct {
	noRes
	Keep  uint32
	Types Bitmap
}

func (*CBRecallAny) Op() CBOp { return OpCBRecallAny }

func (o *CBRecallAny) AppendArgs(w *xdr.Writer) {
	w.Uint32(o.Keep)
	o.Types.append(w)
}

func (o *CBRecallAny) ParseArgs(r *xdr.Reader) {
	o.Keep = r.Uint32()
	o.Types.parse(r)
}

// CBRecallSlot is CB_RECALL_SLOT (section 20.8): the fore channel is to use no slot above Target.
type CBRecallSlot struct {
	noRes
	Target uint32
}

func (*CBRecallSlot) Op() CBOp                   { return OpCBRecallSlot }
func (o *CBRecallSlot) AppendArgs(w *xdr.Writer) { w.Uint32(o.Target) }
func (o *CBRecallSlot) ParseArgs(r *xdr.Reader)  { o.Target = r.Uint32() }
