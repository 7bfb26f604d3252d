package session

// runRenew keeps the lease alive. Any request renews it from when it was sent; if none was for two
// thirds of it, SEQUENCE alone is.
func (s *Session) runRenew() {
	for {
		s.mu.Lock()
		due := s.renewed.Add(s.lease * 2 / 3).Sub(s.cf.Clock.Now())
		pause := min(s.lease/8, lastPause)
		s.mu.Unlock()
		if due <= 0 {
			// An error is the transport's, which has given up for now, or that of a recovery.
			if s.do(s.ending, &Call{}, renewal) == nil {
				continue
			}
			due = pause
		}
		if s.pause(s.ending, due) != nil {
			return
		}
	}
}
