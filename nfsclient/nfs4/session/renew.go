package session

// runRenew keeps the lease alive. Any request renews it from when it was sent; if none was for two
// thirds of it, SEQUENCE alone is.
func (s *Session) runRenew() {
	for {
		most := s.useful()
		s.mu.Lock()
		s.cur.most = most
		due := s.renewed.Add(s.lease * 2 / 3).Sub(s.cf.Clock.Now())
		pause, look := min(s.lease/8, lastPause), s.lease/4
		s.mu.Unlock()
		if due <= 0 {
			// An error is the transport's, which has given up for now, or that of a recovery.
			if s.do(s.ending, &Call{}, renewal) == nil {
				continue
			}
			due = pause
		}
		// Timers stand still while the host is suspended. That it was is to be noticed soon.
		if s.pause(s.ending, min(due, look)) != nil {
			return
		}
	}
}
