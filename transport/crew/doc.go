// Package crew lets the goroutine of a server's connection that has received a call carry it out itself, and then receive the next: a
// call needs no hand-over to another goroutine, which costs more than most calls. Only while a call takes long does
// another one receive.
//
// It owns who receives. It refuses to know what is received, or how.
//
// Invariants:
//
//   - One member of the crew at a time receives, or carries out a call and will receive again.
//   - A member that carries out a call is relieved, which means that another one receives: at once when anybody says that something
//     may have to be waited for (Relieve); when it takes more than tick; and from the beginning if calls have lately taken long.
//   - A member that was relieved stands by after its call, until it is to relieve another.
//
// # Goroutines and locks
//
// The owner starts the members: by Start, which Relieve and Begin call. A timer runs while calls come, and no longer than two
// ticks after the last. There are no locks.
package crew
