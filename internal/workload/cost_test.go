package workload

import (
	"os"
	"testing"
)

func TestProcessTimeIsThatOfTheProcess(t *testing.T) {
	before, err := processTime(os.Getpid())
	if err != nil || before <= 0 {
		t.Fatalf("%v, %v", before, err)
	}
	for after := before; after == before; {
		if after, err = processTime(os.Getpid()); err != nil || after < before {
			t.Fatalf("%v after %v, %v", after, before, err)
		}
	}
	if _, err := processTime(1 << 22); err == nil { // no process has that number
		t.Error("a process that does not exist has spent time")
	}
}
