package rpcsecgss

import (
	"context"
	"time"
)

// Tokens makes and checks the per-message tokens of one established context. Its
// methods may be called from any goroutine.
type Tokens interface {
	// AppendMIC appends the token that authenticates msg: MICLen bytes.
	AppendMIC(dst, msg []byte) []byte
	// VerifyMIC reports why token is not one that the peer made for msg.
	VerifyMIC(msg, token []byte) error
	// AppendWrap appends a token with msg sealed in it: WrapOverhead bytes more than msg
	// has.
	AppendWrap(dst, msg []byte) []byte
	// Unwrap returns what the peer sealed in token. It decrypts in place: the result is a
	// part of token, whose content is lost.
	Unwrap(token []byte) ([]byte, error)
	// MICLen and WrapOverhead are the same for the life of the context.
	MICLen() int
	WrapOverhead() int
	// Expires is when the peer may refuse the context.
	Expires() time.Time
}

// Initiator makes contexts for one user and one server.
type Initiator interface {
	// Start returns the token that the server is to be sent, and what makes a context of
	// the server's answer; finish is called once at most. ctx bounds what must be asked
	// of others for it.
	Start(ctx context.Context) (token []byte, finish func(reply []byte) (Tokens, error), err error)
}

// Acceptor makes contexts for a server.
type Acceptor interface {
	// Accept judges an initiator's token. Whatever it returns with an error is not a
	// context.
	Accept(token []byte) (reply []byte, t Tokens, who Principal, err error)
}

// Principal is who has made a context.
type Principal struct {
	// Name is without the realm, its components joined by slashes.
	Name, Realm string
}

func (p Principal) String() string {
	if p.Realm == "" {
		return p.Name
	}
	return p.Name + "@" + p.Realm
}
