package rpcsecgss

import (
	"errors"

	"github.com/rdmafs/rdmafs/transport/xdr"
)

// protection is transport.Protection of one transmission, of the server's side: arguments
// are unprotected, and results protected.
type protection struct {
	tokens  Tokens
	service Service
	seq     uint32
}

var errSequence = errors.New("the sequence number in the body is not the credential's")

// Protect appends rpc_gss_integ_data or rpc_gss_priv_data (RFC 2203 sections 5.3.2.2 and
// 5.3.2.3).
func (p *protection) Protect(w *xdr.Writer, args []byte) {
	if p.service == Privacy {
		var plain xdr.Writer
		plain.Reset(make([]byte, 0, 4+len(args)), nil)
		plain.Uint32(p.seq)
		plain.Fixed(args)
		w.Opaque(p.tokens.AppendWrap(nil, plain.Bytes()))
		return
	}
	w.Uint32(uint32(4 + len(args)))
	at := len(w.Bytes())
	w.Uint32(p.seq)
	w.Fixed(args)
	w.Opaque(p.tokens.AppendMIC(nil, w.Bytes()[at:at+4+len(args)]))
}

// Unprotect is the inverse of Protect for what the peer has made. It decrypts in place.
func (p *protection) Unprotect(body []byte) ([]byte, error) {
	var r xdr.Reader
	r.Reset(body, nil)
	data := r.Opaque(len(body))
	var err error
	if p.service == Privacy {
		if err = r.End(); err == nil {
			data, err = p.tokens.Unwrap(data)
		}
	} else {
		sum := r.Opaque(len(body))
		if err = r.End(); err == nil {
			err = p.tokens.VerifyMIC(data, sum)
		}
	}
	if err != nil {
		return nil, err
	}
	r.Reset(data, nil)
	if seq := r.Uint32(); r.Err() != nil || seq != p.seq {
		return nil, errSequence
	}
	return data[4:], nil
}

// Overhead bounds what Protect adds.
func (p *protection) Overhead() int {
	if p.service == Privacy {
		return 4 + 4 + p.tokens.WrapOverhead() + 3
	}
	return 4 + 4 + 4 + p.tokens.MICLen() + 3
}
