package nfsclient

const (
	// maxIO bounds a read or write when nothing else does: the largest that
	// Linux servers offer.
	maxIO = 4 << 20
	// unknownIO is used when a server states no maximum.
	unknownIO = 8 << 10
	minIO     = 1 << 10
	pageSize  = 4 << 10
)

// IOSize is the size of the largest read or write in bytes: the least of the bounds given, of
// which those that are 0 do not count, in whole pages if it can be. server is the
// maximum that the server states, 0 if it states none.
func IOSize(server uint64, bounds ...int) int {
	n := maxIO
	if server == 0 {
		server = unknownIO
	}
	if server < uint64(n) {
		n = int(server)
	}
	for _, m := range bounds {
		if m > 0 {
			n = min(n, m)
		}
	}
	if n >= pageSize {
		return n &^ (pageSize - 1)
	}
	return max(n&^(minIO-1), minIO)
}
