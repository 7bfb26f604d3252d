// Package spin decides whether a goroutine that is about to sleep on a socket polls it for a moment first. To be woken from the
// runtime's poller takes some 50 µs, which is as long as many a reply takes to come; to poll costs a processor for that time.
//
// It owns that decision, and refuses to know what is polled.
//
// Invariants:
//
//   - A wait is polled for limit at most, and only while the machine has idle processors, which /proc/loadavg
//     tells: the number of tasks that run or could. A poller that was taken off its processor does not poll for a while.
//   - It goes on only while it pays: after a miss that makes n more misses than hits, the next 2^n waits sleep at once, up to 1,024. So
//     of any sequence of waits, no more polls miss than hit, but for ten and one in a thousand waits.
//
// For tests and comparisons, a program that runs with RDMAFS_SPIN=off in its environment polls nothing, and one with RDMAFS_SPIN=on
// does not ask whether processors are idle.
//
// It has no goroutines. Its locks are held for moments, while /proc/loadavg is read at most.
package spin
