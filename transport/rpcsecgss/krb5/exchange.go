package krb5

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
)

// Limits of one exchange with one KDC. ctx may end it sooner.
const (
	datagramTimeout = time.Second
	streamTimeout   = 5 * time.Second
	maxAnswer       = 256 << 10 // of TCP: tickets of Active Directory reach 64 KiB
	maxDatagram     = 64 << 10
	maxStrays       = 8     // datagrams that are no answers
	maxUDPRequest   = 32700 // krb5.conf(5), udp_preference_limit
)

// BadAnswer is what a KDC, or who answers in its place, has sent that is no answer.
type BadAnswer struct {
	At, Why string
}

func (e *BadAnswer) Error() string {
	return fmt.Sprintf("the answer of %s is malformed: %s", e.At, e.Why)
}

// answer is that of a KDC: a reply, or else a refusal.
type answer struct {
	at      string
	reply   []byte
	refusal *messages.KRBError
}

// ask sends a request to the KDCs of a realm until one answers (RFC 4120 section 7.2). Small
// requests go by UDP to each of them, and, if none answers, by TCP to each; large ones the
// other way round.
func (c *Conf) ask(ctx context.Context, realm string, request []byte) (answer, error) {
	networks := []string{"udp", "tcp"}
	if limit := c.LibDefaults.UDPPreferenceLimit; limit == 1 || len(request) > min(limit, maxUDPRequest) {
		networks = []string{"tcp", "udp"}
	}
	var failed []string
	var err error
	for _, network := range networks {
		var kdcs []string
		if kdcs, err = c.kdcs(ctx, realm, network); err != nil {
			failed = append(failed, err.Error())
		}
		for _, at := range kdcs {
			var a answer
			if a, err = askOne(ctx, network, at, request); err == nil {
				return a, nil
			}
			if ctx.Err() != nil {
				return answer{}, ctx.Err()
			}
			failed = append(failed, err.Error())
		}
	}
	return answer{}, &unanswered{realm, failed, err}
}

// unanswered: no KDC of a realm has answered.
type unanswered struct {
	realm  string
	failed []string
	last   error
}

func (e *unanswered) Error() string {
	return fmt.Sprintf("no KDC of %s answers: %s", e.realm, strings.Join(e.failed, "; "))
}

func (e *unanswered) Unwrap() error { return e.last }

// askOne makes one exchange with one KDC; by TCP, too, if the answer is too long for UDP.
func askOne(ctx context.Context, network, at string, request []byte) (a answer, err error) {
	if network == "udp" {
		a, err = byDatagram(ctx, at, request)
		if err != nil || a.refusal == nil || a.refusal.ErrorCode != errTooBig {
			return a, unavailable(a, err)
		}
	}
	a, err = byStream(ctx, at, request)
	if err == nil && a.refusal != nil && a.refusal.ErrorCode == errTooBig {
		err = &BadAnswer{at, "it says by TCP that TCP is needed"}
	}
	return a, unavailable(a, err)
}

// unavailable makes an error of a refusal that says that another KDC should be asked.
func unavailable(a answer, err error) error {
	if err == nil && a.refusal != nil && a.refusal.ErrorCode == errUnavailable {
		return fmt.Errorf("%s: %w", a.at, a.refusal)
	}
	return err
}

// byDatagram makes an exchange by UDP. Datagrams that are no answers may have been sent by
// anybody: the KDC's is still waited for.
func byDatagram(ctx context.Context, at string, request []byte) (answer, error) {
	conn, stop, err := dialKDC(ctx, "udp", at, datagramTimeout)
	if err != nil {
		return answer{}, err
	}
	defer stop()
	if _, err := conn.Write(request); err != nil {
		return answer{}, err
	}
	buf := make([]byte, maxDatagram)
	for range maxStrays {
		var n int
		if n, err = conn.Read(buf); err != nil {
			return answer{}, err
		}
		var a answer
		if a, err = parseAnswer(at, bytes.Clone(buf[:n])); err == nil {
			return a, nil
		}
	}
	return answer{}, err
}

// byStream makes an exchange by TCP.
func byStream(ctx context.Context, at string, request []byte) (answer, error) {
	conn, stop, err := dialKDC(ctx, "tcp", at, streamTimeout)
	if err != nil {
		return answer{}, err
	}
	defer stop()
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)
	if _, err := conn.Write(framed); err != nil {
		return answer{}, err
	}
	b, err := readFramed(at, conn)
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(at, b)
}

// dialKDC connects to a KDC for one exchange, which ctx and the timeout bound, until stop is
// called.
func dialKDC(ctx context.Context, network, at string, timeout time.Duration) (conn net.Conn, stop func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	conn, err = new(net.Dialer).DialContext(bounded, network, at)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	disarm := context.AfterFunc(bounded, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return conn, func() {
		disarm()
		cancel()
		_ = conn.Close()
	}, nil
}

// readFramed reads a message of TCP behind its length (RFC 4120 section 7.2.2), whose first
// bit is reserved.
func readFramed(at string, r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("%s ends the connection without an answer: %w", at, err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxAnswer {
		return nil, &BadAnswer{at, fmt.Sprintf("%d bytes are announced, and there may be %d", n, maxAnswer)}
	}
	b := make([]byte, n)
	if got, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("%s ends the connection after %d bytes of %d: %w", at, got, n, err)
	}
	return b, nil
}

// The first bytes of what a KDC sends: the tags of AS-REP, TGS-REP and KRB-ERROR (RFC 4120
// section 5.10).
const (
	tagASRep    = 0x60 | 11
	tagTGSRep   = 0x60 | 13
	tagKRBError = 0x60 | 30
)

// parseAnswer takes b as what a KDC sends. A reply in it is not decoded yet.
func parseAnswer(at string, b []byte) (answer, error) {
	if len(b) == 0 || b[0] != tagASRep && b[0] != tagTGSRep && b[0] != tagKRBError {
		return answer{}, &BadAnswer{at, "it is no message of a KDC"}
	}
	if n, head := derLength(b[1:]); head == 0 || n != len(b)-1-head {
		return answer{}, &BadAnswer{at, fmt.Sprintf("its length is not that of the %d bytes that came", len(b))}
	}
	if b[0] != tagKRBError {
		return answer{at: at, reply: b}, nil
	}
	refusal := new(messages.KRBError)
	if err := guarded(func() error { return refusal.Unmarshal(b) }); err != nil {
		return answer{}, &BadAnswer{at, err.Error()}
	}
	return answer{at: at, refusal: refusal}, nil
}

// derLength decodes a length of DER; size is how many bytes it has, or 0 if it is none.
func derLength(b []byte) (n, size int) {
	if len(b) == 0 {
		return 0, 0
	}
	if b[0] < 0x80 {
		return int(b[0]), 1
	}
	more := int(b[0] & 0x7f)
	if more == 0 || more > 3 || len(b) < 1+more {
		return 0, 0
	}
	for _, d := range b[1 : 1+more] {
		n = n<<8 | int(d)
	}
	return n, 1 + more
}

var errMalformed = errors.New("malformed")

// guarded returns a panic of f as an error. gokrb5 takes it for granted that what it decodes is
// complete; what a peer sends, or a file has, may not be.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errMalformed, p)
		}
	}()
	return f()
}
