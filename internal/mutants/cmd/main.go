// Command cmd runs the mutants of testdata/mutants, all or those named, and
// fails unless every one is killed. `make mutants` runs it in the root.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/troupe-ml/troupe/internal/mutants"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	results, err := mutants.Run(ctx, ".", os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
	if !mutants.Report(os.Stdout, results) {
		os.Exit(1)
	}
}
