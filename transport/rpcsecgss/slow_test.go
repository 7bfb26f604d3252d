package rpcsecgss_test

import (
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/oncrpc"
	"github.com/rdmafs/rdmafs/transport/rpcsecgss"
)

// slowInit holds back the making of contexts until answer is closed, and says that one
// has arrived.
type slowInit struct {
	*rpcsecgss.Server
	arrived, answer chan struct{}
}

func (s slowInit) Admit(q *transport.Request, a oncrpc.Auth) (oncrpc.Admission, error) {
	if c, err := rpcsecgss.ParseCredential(a.Cred); err == nil && c.Proc == rpcsecgss.ProcInit {
		s.arrived <- struct{}{}
		<-s.answer
	}
	return s.Server.Admit(q, a)
}

// losesInit closes the connection instead of answering the first of the tokens that make
// a context, n times, and remembers what it was given.
type losesInit struct {
	*rpcsecgss.Server
	n      *int
	tokens *[]string
}

func (s losesInit) Admit(q *transport.Request, a oncrpc.Auth) (oncrpc.Admission, error) {
	c, err := rpcsecgss.ParseCredential(a.Cred)
	if err != nil || c.Proc != rpcsecgss.ProcInit {
		return s.Server.Admit(q, a)
	}
	token := *q.Args // a copy reads for itself
	*s.tokens = append(*s.tokens, string(token.Opaque(rpcsecgss.MaxToken)))
	if *s.n--; *s.n >= 0 {
		return nil, oncrpc.ErrDiscard
	}
	return s.Server.Admit(q, a)
}
