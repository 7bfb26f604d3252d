package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// result is an operation of COMPOUND, numbered by Op, or of CB_COMPOUND, numbered by CBOp.
type result[N ~uint32] interface {
	Op() N
	AppendRes(w *xdr.Writer, st Status)
	ParseRes(r *xdr.Reader, st Status)
	ReplyMax() int
}

// outcome is the status of operation i of a compound, of which done are answered, the last with the
// compound's status and the others with OK. answered is false if it has none.
func outcome(i, done int, status Status) (st Status, answered bool) {
	switch {
	case i >= done:
		return 0, false
	case i == done-1:
		return status, true
	}
	return OK, true
}

// appendResults encodes COMPOUND4res or CB_COMPOUND4res with the results of ops, of which the last has
// the status and the others have succeeded.
func appendResults[N ~uint32, O result[N]](w *xdr.Writer, status Status, tag string, ops []O, illegal N) {
	w.Uint32(uint32(status))
	w.String(tag)
	w.Uint32(uint32(len(ops)))
	for i, o := range ops {
		st, _ := outcome(i, len(ops), status)
		if st == ErrOpIllegal {
			w.Uint32(uint32(illegal))
		} else {
			w.Uint32(uint32(o.Op()))
		}
		w.Uint32(uint32(st))
		o.AppendRes(w, st)
	}
}

// parseResults decodes COMPOUND4res or CB_COMPOUND4res into the operations that were asked, of which the first
// done are answered. It is malformed when a result is not that of the operation asked, when there are more
// results than operations, when the statuses contradict each other, and when a result is larger than
// its ReplyMax.
func parseResults[N ~uint32, O result[N]](r *xdr.Reader, tag string, ops []O, illegal N) (status Status, done int) {
	status = Status(r.Uint32())
	r.Opaque(len(tag))
	n := r.Count(len(ops))
	if status == OK && n != len(ops) {
		r.Fail("%d results of %d operations in a compound that succeeded", n, len(ops))
	}
	for i := 0; i < n && r.Err() == nil; i++ {
		o := ops[i]
		want, _ := outcome(i, n, status)
		start := r.Offset()
		resop, st := N(r.Uint32()), Status(r.Uint32())
		switch {
		case r.Err() != nil:
			return status, done
		case resop != o.Op() && (resop != illegal || st != ErrOpIllegal):
			r.Fail("result %d is of %v instead of %v", i, resop, o.Op())
			return status, done
		case st != want:
			r.Fail("%v has status %d where %d is due", resop, st, want)
			return status, done
		case st == ErrOpIllegal: // has no more results, whatever was asked
		default:
			o.ParseRes(r, st)
		}
		if size, limit := r.Offset()-start-bulkIn(o), o.ReplyMax(); r.Err() == nil && size > limit {
			r.Fail("results of %v have %d bytes, at most %d were asked for", resop, size, limit)
			return status, done
		}
		done = i + 1
	}
	return status, done
}

// bulkIn is how many bytes of an operation's results may be those of its Bulk.
func bulkIn(o any) int {
	switch o := o.(type) {
	case *Read:
		return o.Data.Len + xdr.Pad(o.Data.Len)
	case *ReadLink:
		return o.Target.Len + xdr.Pad(o.Target.Len)
	}
	return 0
}
