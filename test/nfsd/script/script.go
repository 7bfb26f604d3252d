package script

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Script is what a server is to do wrong. It may be changed at any time.
type Script struct {
	mu   sync.Mutex
	dice *rand.Rand
	r    rules
	// struck counts replies and calls that were tampered with.
	struck int

	// Of the frozen file: its name, its handle once that was seen, and what lets
	// waiting calls go.
	frozen nfsclient.Handle
	thaw   chan struct{}
	// verf is the write verifier last seen, for COMMITs that are a lie.
	verf nfsclient.Verifier
}

// rules are numbers in percent unless said otherwise.
type rules struct {
	late, truncate, double, foreign, jukebox int
	longest                                  time.Duration // of late
	credits                                  uint32        // 0: as many as the server grants
	freeze                                   string        // name of a file
	liar                                     bool
	clock                                    int64 // seconds to add to every time
}

// New makes a script that does nothing yet.
func New(seed uint64) *Script { return &Script{dice: rand.New(rand.NewPCG(seed, 1))} }

// Do changes the script:
//
//	clear             all is well again
//	late P MS         P percent of replies are up to MS milliseconds late
//	truncate P        … are cut short
//	double P          … come twice
//	foreign P         … have the XID of no call
//	jukebox P         … of READ and WRITE are NFS3ERR_JUKEBOX
//	credits N         each reply over RDMA grants N
//	freeze NAME       calls for the file of that name are not answered
//	lie               COMMIT and stable WRITE do nothing and say that they did
//	clock SECONDS     is added to every time in attributes
func (s *Script) Do(line string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var p, ms int
	var name string
	scan := func(into ...any) error {
		_, err := fmt.Sscan(line, append([]any{&name}, into...)...)
		return err
	}
	if err := scan(); err != nil {
		return err
	}
	switch name {
	case "clear":
		s.r = rules{}
		if s.thaw != nil {
			close(s.thaw)
			s.thaw = nil
		}
		s.frozen = ""
		return nil
	case "late":
		if err := scan(&p, &ms); err != nil {
			return err
		}
		s.r.late, s.r.longest = p, time.Duration(ms)*time.Millisecond
		return nil
	case "truncate":
		return scan(&s.r.truncate)
	case "double":
		return scan(&s.r.double)
	case "foreign":
		return scan(&s.r.foreign)
	case "jukebox":
		return scan(&s.r.jukebox)
	case "credits":
		return scan(&s.r.credits)
	case "freeze":
		if s.thaw == nil {
			s.thaw = make(chan struct{})
		}
		return scan(&s.r.freeze)
	case "lie":
		s.r.liar = true
		return nil
	case "clock":
		return scan(&s.r.clock)
	}
	return fmt.Errorf("script: unknown command %q", name)
}

// Struck is how many calls and replies were tampered with.
func (s *Script) Struck() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.struck
}

// hit rolls the dice for one of the rules.
func (s *Script) hit(rule func(*rules) int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	yes := s.dice.IntN(100) < rule(&s.r)
	if yes {
		s.struck++
	}
	return yes
}

func (s *Script) below(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dice.IntN(max(n, 1))
}
