// Package randomops does random operations to a directory on a mount and the same to a local
// directory, and compares every result: errors, data, sizes, modes, link counts, names, and times that were
// set. The local file system of the kernel is the model.
//
// It owns both directories, and needs a process without a server in it: it touches mapped files. Workers have
// subdirectories of their own, and seeds that follow from the one of the run, so that each
// does the same again with the same seed.
//
// What NFS does otherwise is left out of the comparison, and nothing else: names .nfs… of
// removed files that are open, for which a directory is not empty until they are closed; link counts of
// open files; and times of files that were stored to through a mapping, which tmpfs does not change.
//
// # Goroutines
//
// Run has one for each worker, and joins them.
package randomops
