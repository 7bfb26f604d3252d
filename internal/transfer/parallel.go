package transfer

import "sync"

// atOnce bounds the operations of inParallel, of all that are nested in each other too.
const atOnce = 16

var slots = make(chan struct{}, atOnce)

// inParallel calls f with the numbers below n, several at once, and returns the errors. It
// starts runCall as far as others do not have all of them under way; the rest it does itself.
func inParallel(n int, f func(k int) error) []error {
	var mu sync.Mutex
	var errs []error
	call := func(k int) {
		if err := f(k); err != nil {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		}
	}
	var calls sync.WaitGroup
	runCall := func(k int) {
		call(k)
		<-slots
	}
	for k := range n {
		select {
		case slots <- struct{}{}:
			calls.Go(func() { runCall(k) })
		default:
			call(k)
		}
	}
	calls.Wait()
	return errs
}
