package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// Notify is nlm4_notify, the arguments of FREE_ALL (RFC 1813 section 6.3.9). A
// client must not send it beside others on its host: Linux servers then free the
// locks of all of them.
type Notify struct {
	Name  string
	State int32
}

func (a *Notify) Append(w *xdr.Writer) {
	w.String(a.Name)
	w.Uint32(uint32(a.State))
}

func (a *Notify) Parse(r *xdr.Reader) { a.Name, a.State = r.String(MaxNotifyName), int32(r.Uint32()) }
