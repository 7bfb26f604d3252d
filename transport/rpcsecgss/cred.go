package rpcsecgss

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/xdr"
)

// ErrVerifier: a reply is not one that the server made for the call it came as an answer
// to.
var ErrVerifier = errors.New("reply is not authentic")

// secured is the credential of one call under a context: transport.Cred and
// transport.Protection.
type secured struct {
	c    *secContext
	proc Proc
	// numbers are those of the call's transmissions, the last last; answered is that of
	// which the reply is.
	numbers  []uint32
	answered uint32
	first    [2]uint32 // memory of numbers
}

// Append implements transport.Cred: each transmission has a number of its own, and the
// verifier is a token for the header up to the credential's end (RFC 2203 section 5.3.1).
func (s *secured) Append(w *xdr.Writer, start int) {
	n := s.c.pace.number()
	if s.numbers == nil {
		s.numbers = s.first[:0]
	}
	s.numbers = append(s.numbers, n)
	cred := Credential{Proc: s.proc, Seq: n, Service: s.c.service, Handle: s.c.handle}
	cred.Append(w)
	var buf [64]byte
	mic := s.c.tokens.AppendMIC(buf[:0], w.Bytes()[start:])
	w.Uint32(Flavor)
	w.Opaque(mic)
}

// Verify implements transport.Cred: the verifier is a token for the number of one of the
// transmissions (RFC 2203 section 5.3.3.2). The last one is the likeliest.
func (s *secured) Verify(flavor uint32, body []byte) error {
	if flavor != Flavor {
		return fmt.Errorf("%w: verifier of flavor %d", ErrVerifier, flavor)
	}
	var err error
	for i := len(s.numbers) - 1; i >= 0; i-- {
		n := s.numbers[i]
		if err = s.c.tokens.VerifyMIC(binary.BigEndian.AppendUint32(nil, n), body); err == nil {
			s.answered = n
			return nil
		}
	}
	return fmt.Errorf("%w: %w", ErrVerifier, err)
}

// Protection implements transport.Cred. Ending a context carries no arguments.
func (s *secured) Protection() transport.Protection {
	if s.c.service == None || s.proc != ProcData {
		return nil
	}
	return s
}

// body is how the arguments or results of the transmission with that number travel.
func (s *secured) body(number uint32) *protection {
	return &protection{tokens: s.c.tokens, service: s.c.service, seq: number}
}

// Protect implements transport.Protection (RFC 2203 section 5.3.2).
func (s *secured) Protect(w *xdr.Writer, args []byte) {
	s.body(s.numbers[len(s.numbers)-1]).Protect(w, args)
}

// Unprotect implements transport.Protection: the results must be those of the transmission
// that the reply's verifier is for.
func (s *secured) Unprotect(body []byte) ([]byte, error) {
	results, err := s.body(s.answered).Unprotect(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVerifier, err)
	}
	return results, nil
}

// Overhead implements transport.Protection.
func (s *secured) Overhead() int { return s.body(0).Overhead() }

// initial is the credential of a call that makes a context.
type initial struct {
	service Service
	// flavor and verifier are the reply's: they can be checked only when its results are
	// known.
	flavor   uint32
	verifier []byte
}

// Append implements transport.Cred (RFC 2203 section 5.2.2).
func (i *initial) Append(w *xdr.Writer, _ int) {
	cred := Credential{Proc: ProcInit, Service: i.service}
	cred.Append(w)
	w.Uint32(transport.FlavorNone)
	w.Uint32(0)
}

// Verify implements transport.Cred.
func (i *initial) Verify(flavor uint32, body []byte) error {
	i.flavor, i.verifier = flavor, append(i.verifier[:0], body...)
	return nil
}

// Protection implements transport.Cred.
func (i *initial) Protection() transport.Protection { return nil }

// check verifies the reply of a completed initiation: its verifier is a token for the
// window's four bytes (RFC 2203 section 5.2.3.1).
func (i *initial) check(t Tokens, window uint32) error {
	if i.flavor != Flavor {
		return fmt.Errorf("%w: verifier of flavor %d for a new context", ErrVerifier, i.flavor)
	}
	if err := t.VerifyMIC(binary.BigEndian.AppendUint32(nil, window), i.verifier); err != nil {
		return fmt.Errorf("%w: new context: %w", ErrVerifier, err)
	}
	return nil
}
