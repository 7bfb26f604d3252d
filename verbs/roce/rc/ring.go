package rc

// ring is a queue of fixed capacity whose places are reused as they are.
type ring[T any] struct {
	items      []T
	head, tail uint64
}

func newRing[T any](n int) ring[T] { return ring[T]{items: make([]T, n)} }

func (r *ring[T]) len() int { return int(r.tail - r.head) }

// at is item number i from the front.
func (r *ring[T]) at(i int) *T { return &r.items[(r.head+uint64(i))%uint64(len(r.items))] }

// grow appends a place, with what it held before, for the caller to set.
func (r *ring[T]) grow() *T {
	r.tail++
	return r.at(r.len() - 1)
}

func (r *ring[T]) push(x T) { *r.grow() = x }

// shrink takes the last item away again.
func (r *ring[T]) shrink() { r.tail-- }

func (r *ring[T]) pop() { r.head++ }

func (r *ring[T]) clear() { r.head = r.tail }
