package packet

// PSN is a packet sequence number: 24 bits that wrap.
type PSN uint32

const psnMask = 1<<24 - 1

// Add is the number n packets further.
func (p PSN) Add(n int) PSN { return PSN(uint32(p)+uint32(n)) & psnMask }

// Sub is how many packets p is ahead of q: negative when it is behind. Numbers
// half the circle apart count as behind.
func (p PSN) Sub(q PSN) int { return int(int32(uint32(p-q)<<8) >> 8) }

// Count is how many packets n bytes take: even none take one.
func Count(n, mtu int) int {
	if n == 0 {
		return 1
	}
	return (n-1)/mtu + 1
}
