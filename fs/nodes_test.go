package fs

// count is how many nodes are held.
func (t *nodes) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.byID)
}
